// Elementwise operators: binary with broadcasting, unary, and per channel.
#include <array>
#include <cmath>
#include <limits>

#include "base/math.h"
#include "base/tensor.h"
#include "kernel/eltwise.h"
#include "kernel/select.h"
#include "op/core/nest.h"
#include "op/core/numbers.h"
#include "op/core/operator.h"

namespace quern {
namespace {

constexpr size_t min_task_elements = 8192;  // a few microseconds
constexpr size_t piece_step = 16;           // long rows are divided at multiples of it

// ---- rows of a nest, divided among tasks ----

// Takes the innermost loop off a nest: a row for the kernels. Kernels need dense rows; only an operand that repeats may
// have stride 0. If dimensions of 1 hide a gap, the innermost loop is not dense, and rows have one element.
template <size_t operands>
struct Row1 {
  size_t count = 1;
  std::array<size_t, operands> stride;
  Nest<operands> outer;

  Row1(const Nest<operands>& nest, size_t element) {
    stride.fill(element);
    bool dense = nest.rank > 0;
    for (size_t i = 0; dense && i < operands; ++i) {
      dense = nest.loops[0].stride[i] == element || nest.loops[0].stride[i] == 0;
    }
    if (dense) count = nest.loops[0].count, stride = nest.loops[0].stride;
    for (size_t i = dense; i < nest.rank; ++i) outer.add(nest.loops[i].count, nest.loops[i].stride);
  }
};

// Divides all rows into pieces, and the pieces among tasks.
template <size_t operands>
class Pieces {
 public:
  Pieces(const Nest<operands>& nest, size_t tasks, KernelType type)
      : element_(input_bytes(type)), row_(nest, element()) {
    const size_t rows = row_.outer.count(), wanted = wanted_chunks(tasks);
    row_split_ = {divide_up(row_.count, piece_step), 1};
    const size_t pieces = divide_up(wanted, std::min(rows, wanted));
    row_split_.chunks = std::clamp<size_t>(row_.count / min_task_elements, 1, std::min(pieces, row_split_.count));
    const size_t each = divide_up(row_.count, row_split_.chunks);
    task_split_ = split(rows * row_split_.chunks, tasks, divide_up(min_task_elements, each));
  }

  size_t tasks() const { return task_split_.chunks; }
  size_t element() const { return has_integers ? element_ : sizeof(float); }  // bytes of one
  size_t stride(size_t operand) const { return row_.stride[operand]; }

  // Calls piece(cursor of the row, first element, number of elements). Ends early if the run was cancelled.
  template <class Piece>
  void run(const Run& run, size_t task, Piece&& piece) const {
    Watch watch(run);
    const size_t begin = task_split_.begin(task), end = task_split_.end(task);
    size_t chunk = begin % row_split_.chunks;
    Cursor<operands> at(row_.outer, begin / row_split_.chunks);
    for (size_t i = begin; i < end; ++i) {
      const size_t last = std::min(row_split_.end(chunk) * piece_step, row_.count);
      for (size_t first = row_split_.begin(chunk) * piece_step; first < last; first += Watch::interval) {
        const size_t count = std::min(Watch::interval, last - first);
        if (watch.stops_here(count)) return;
        piece(at, first, count);
      }
      if (++chunk == row_split_.chunks) chunk = 0, at.next();
    }
  }

 private:
  size_t element_;
  Row1<operands> row_;
  Split row_split_;   // divides a row into pieces, at multiples of piece_step
  Split task_split_;  // divides all pieces among tasks
};

const float* floats(const char* p) { return reinterpret_cast<const float*>(p); }
float* floats(char* p) { return reinterpret_cast<float*>(p); }

qn_status infer_same(std::span<const qn_tensor> ins, qn_tensor* out) {
  out->rank = ins[0].rank;
  std::copy_n(ins[0].shape, ins[0].rank, out->shape);
  return QN_OK;
}

// ---- binary ----

constexpr char binary[] = "binary";

// The stride of an input along dimension i of the output; 0 if the input repeats there.
size_t broadcast_stride(const qn_tensor& in, const qn_tensor& out, uint32_t i) {
  const uint32_t missing = out.rank - in.rank;
  return i < missing || in.shape[i - missing] == 1 ? 0 : in.stride[i - missing];
}

class BinaryPlan final : public qn_plan {
 public:
  BinaryPlan(const Pieces<3>& pieces, const BinaryRow& row, bool swapped, const qn_minmax_f32& clamp)
      : pieces_(pieces), row_(row), swapped_(swapped), clamp_(clamp) {
    phases = {pieces_.tasks()};
    kernel = row.name;
  }

  void task(const Run& run, size_t, size_t index) const override {
    const size_t vector = swapped_, other = !swapped_;  // `vector` is never a scalar, `other` may be one
    const size_t element = pieces_.element();
    const void* p = has_integers && row_.type == KernelType::qs8 ? static_cast<const void*>(&bytes) : &clamp_;
    pieces_.run(run, index, [&](const Cursor<3>& at, size_t first, size_t count) {
      row_.run(count, run.input(vector) + at.offset(vector) + first * element,
               run.input(other) + at.offset(other) + first * pieces_.stride(other),
               run.output + at.offset(2) + first * element, p);
    });
  }

  qn_binary_qs8 bytes;  // parameters of a kernel of bytes

 private:
  Pieces<3> pieces_;
  const BinaryRow& row_;
  bool swapped_;
  qn_minmax_f32 clamp_;
};

class Binary final : public Operator {
 public:
  explicit Binary(const qn_binary_params& p) : Operator(binary, 2, 2), p_(p) {
    compute_with(p.type);
    in_place = 3;
  }

  qn_status infer(std::span<const qn_tensor> ins, qn_tensor* out) const override {
    const qn_tensor &a = ins[0], &b = ins[1];
    out->rank = std::max(a.rank, b.rank);
    for (uint32_t i = 0; i < out->rank; ++i) {  // dimensions are matched from the last one on
      const size_t x = i < a.rank ? a.shape[a.rank - 1 - i] : 1, y = i < b.rank ? b.shape[b.rank - 1 - i] : 1;
      if (x != y && x != 1 && y != 1) {
        return fail(QN_INVALID_ARGUMENT, "%s: shapes %s and %s do not broadcast", name, ShapeText(a).text,
                    ShapeText(b).text);
      }
      out->shape[out->rank - 1 - i] = x == 1 ? y : x;
    }
    return QN_OK;
  }

  qn_status plan(const Request& user, PlanPointer* plan) const override {
    const MemoryRequest memory(user);
    QN_TRY(memory.check(name));
    const Request& request = memory.request();
    const qn_tensor &a = request.ins[0], &b = request.ins[1], &out = request.out;
    Nest<3> nest;
    for (uint32_t i = out.rank; i-- > 0;) {
      nest.add(out.shape[i], {broadcast_stride(a, out, i), broadcast_stride(b, out, i), out.stride[i]});
    }
    const KernelType numbers = type_without_weights(type);
    const Pieces<3> pieces(nest, request.options.tasks, numbers);
    const bool swapped = pieces.stride(0) == 0;
    // Bytes are subtracted by the kernels that add, with a factor below 0.
    const qn_binary_kind function = type == QN_S8 && p_.kind == QN_SUB ? QN_ADD : p_.kind;
    const BinaryKind kind = kinds[function][swapped ? 2 : pieces.stride(1) == 0 ? 1 : 0];
    const BinaryRow* row =
        select(binary_rows(), numbers, request.options.kernel, [&](const BinaryRow& r) { return r.kind == kind; });
    if (row == nullptr) return no_kernel(name, request.options.kernel);
    auto made = make_plan<BinaryPlan>(pieces, *row, swapped, qn_minmax_f32{p_.min, p_.max});
    if (has_integers && type == QN_S8) QN_TRY(make_parameters(request, swapped, &made->bytes));
    *plan = std::move(made);
    return QN_OK;
  }

 private:
  // The first operand of the kernel is input 1 if `swapped`.
  qn_status make_parameters(const Request& request, bool swapped, qn_binary_qs8* p) const {
    QN_TRY(check_one_scale(name, request.ins, request.out));
    const Steps a = steps_of(request.ins[swapped]), b = steps_of(request.ins[!swapped]), out = steps_of(request.out);
    *p = numbers_of_sum(a, b, out, {p_.min, p_.max});
    if (p_.kind == QN_MUL) p->scale_a = a.scale * b.scale / out.scale;
    QN_TRY(check_factor(name, p->scale_a));
    QN_TRY(check_factor(name, p->scale_b));
    if (p_.kind == QN_SUB) (swapped ? p->scale_a : p->scale_b) *= -1;
    return QN_OK;
  }

  // For each operator three kinds: both operands are vectors, b is a scalar, a is a scalar.
  static constexpr BinaryKind kinds[][3] = {{BinaryKind::add, BinaryKind::addc, BinaryKind::addc},
                                            {BinaryKind::sub, BinaryKind::subc, BinaryKind::rsubc},
                                            {BinaryKind::mul, BinaryKind::mulc, BinaryKind::mulc},
                                            {BinaryKind::div, BinaryKind::divc, BinaryKind::rdivc}};
  qn_binary_params p_;
};

qn_status create_binary(const qn_binary_params* params, qn_operator** op) {
  qn_binary_params p;
  QN_TRY(read_params(binary, params, qn_binary_params_init, op, &p, check_computed_type));
  if (p.kind < QN_ADD || p.kind > QN_DIV) {
    return fail(QN_INVALID_ARGUMENT, "%s: unknown kind %d", binary, static_cast<int>(p.kind));
  }
  if (p.type == QN_S8 && p.kind == QN_DIV) return fail(QN_UNSUPPORTED, "%s: QN_DIV of QN_S8", binary);
  QN_TRY(check_clamp(binary, p.min, p.max));
  return make_operator<Binary>(op, p);
}

// ---- unary ----

constexpr char unary[] = "unary";

// What a function makes of each byte. On every CPU the same, because the reference computes it; in a small build without
// one, the row that replaces it on every CPU.
using LookupTable = std::array<int8_t, 256>;
LookupTable make_table(UnaryKind kind, const qn_unary_f32& p, const Steps& in, const Steps& out) {
  float x[256], y[256];
  for (int i = 0; i < 256; ++i) x[i] = to_real(INT8_MIN + i, in);
  for (const UnaryRow& row : unary_rows()) {
    if (row.kind == kind && (row.isa & ~isa_baseline) == 0) row.run(std::size(x), x, y, &p);
  }
  LookupTable table;
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int8_t>(to_step(y[i], out));
  return table;
}

class UnaryPlan final : public qn_plan {
 public:
  UnaryPlan(const Pieces<2>& pieces, const UnaryRow& row, const qn_unary_f32& p) : pieces_(pieces), row_(row), p_(p) {
    phases = {pieces_.tasks()};
    kernel = row.name;
  }

  void task(const Run& run, size_t, size_t index) const override {
    const size_t element = pieces_.element();
    const void* p = has_integers && row_.kind == UnaryKind::lookup ? static_cast<const void*>(table.data()) : &p_;
    pieces_.run(run, index, [&](const Cursor<2>& at, size_t first, size_t count) {
      row_.run(count, run.input(0) + at.offset(0) + first * element, run.output + at.offset(1) + first * element, p);
    });
  }

  LookupTable table;  // undefined unless bytes are looked up

 private:
  Pieces<2> pieces_;
  const UnaryRow& row_;
  qn_unary_f32 p_;
};

class Unary final : public Operator {
 public:
  explicit Unary(const qn_unary_params& p) : Operator(unary, 1, 1), p_(p) {
    compute_with(p.type);
    in_place = 1;
  }

  qn_status infer(std::span<const qn_tensor> ins, qn_tensor* out) const override { return infer_same(ins, out); }

  qn_status plan(const Request& user, PlanPointer* plan) const override {
    const MemoryRequest memory(user);
    QN_TRY(memory.check(name));
    const Request& request = memory.request();
    const qn_tensor &in = request.ins[0], &out = request.out;
    Nest<2> nest;
    for (uint32_t i = out.rank; i-- > 0;) nest.add(out.shape[i], {in.stride[i], out.stride[i]});
    const KernelType numbers = type_without_weights(type);
    const UnaryKind function = kinds[p_.kind], kind = has_integers && type == QN_S8 ? UnaryKind::lookup : function;
    const UnaryRow* row =
        select(unary_rows(), numbers, request.options.kernel, [&](const UnaryRow& r) { return r.kind == kind; });
    if (row == nullptr) return no_kernel(name, request.options.kernel);
    const Pieces<2> pieces(nest, request.options.tasks, numbers);
    // x + -0 is x for every x, but -0 + 0 is 0.
    const float beta = p_.kind == QN_POWER && p_.beta == 0 ? -0.0f : p_.beta;
    const qn_unary_f32 p = {p_.alpha, beta, p_.gamma};
    auto made = make_plan<UnaryPlan>(pieces, *row, p);
    if (has_integers && type == QN_S8) {
      QN_TRY(check_one_scale(name, request.ins, out));
      made->table = make_table(function, p, steps_of(in), steps_of(out));
    }
    *plan = std::move(made);
    return QN_OK;
  }

 private:
  static constexpr UnaryKind kinds[] = {UnaryKind::clamp,  UnaryKind::sigmoid, UnaryKind::tanh,
                                        UnaryKind::hswish, UnaryKind::power,   UnaryKind::exp};
  qn_unary_params p_;
};

qn_status create_unary(const qn_unary_params* params, qn_operator** op) {
  qn_unary_params p;
  QN_TRY(read_params(unary, params, qn_unary_params_init, op, &p, check_computed_type));
  if (p.kind < QN_CLAMP || p.kind > QN_EXP) {
    return fail(QN_INVALID_ARGUMENT, "%s: unknown kind %d", unary, static_cast<int>(p.kind));
  }
  if (p.kind == QN_CLAMP) QN_TRY(check_clamp("unary: clamp", p.alpha, p.beta));
  if (p.type == QN_S8 && p.kind == QN_POWER && !is_exact_power(p.gamma)) {
    return fail(QN_UNSUPPORTED, "%s: QN_POWER of QN_S8 with the exponent %g", unary, static_cast<double>(p.gamma));
  }
  return make_operator<Unary>(op, p);
}

// ---- per channel ----

class ChannelPlan final : public qn_plan {
 public:
  ChannelPlan(const Request& request, const ChannelRow& row, const Vector<float>& scale, const Vector<float>& bias,
              const qn_minmax_f32& clamp)
      : row_(row), blocked_(is_blocked(request.out)), scale_(scale), bias_(bias), clamp_(clamp) {
    const qn_tensor in = in_memory(request.ins[0]), out = in_memory(request.out);
    columns_ = out.rank == 0 ? 1 : out.shape[out.rank - 1];
    find_rows(in, out);
    const size_t grain = divide_up(min_task_elements, columns_);
    // Rows are divided into blocks. A block is one call of the kernel; there are enough blocks for the tasks.
    const size_t wanted = wanted_chunks(request.options.tasks);
    const size_t outer = outer_.count();
    const size_t blocks = divide_up(wanted, std::min(outer, wanted));
    row_split_ = {rows_, std::clamp<size_t>(rows_ / grain, 1, blocks)};
    task_split_ = split(outer * row_split_.chunks, request.options.tasks, blocked_ ? divide_up(grain, rows_) : 1);
    phases = {task_split_.chunks};
    kernel = row.name;
  }

  void task(const Run& run, size_t, size_t index) const override {
    Watch watch(run);
    const size_t most = std::max<size_t>(Watch::interval / columns_, 1);
    for (size_t i = task_split_.begin(index); i < task_split_.end(index); ++i) {
      const Cursor<2> at(outer_, i / row_split_.chunks);
      const size_t end = row_split_.end(i % row_split_.chunks);
      for (size_t first = row_split_.begin(i % row_split_.chunks); first < end; first += most) {
        const size_t count = std::min(most, end - first);
        if (watch.stops(count * columns_)) return;
        run_rows(run, at, first, count);
      }
    }
  }

 private:
  void run_rows(const Run& run, const Cursor<2>& at, size_t first, size_t count) const {
    const size_t channel = blocked_ ? first : 0;  // a row is one channel, or has all channels
    row_.run(count, columns_, floats(run.input(0) + at.offset(0) + first * stride_[0]), stride_[0],
             scale_.data() + channel, bias_.empty() ? nullptr : bias_.data() + channel,
             floats(run.output + at.offset(1) + first * stride_[1]), stride_[1], &clamp_);
  }

  // Finds the rows that one call of the kernel can take: as many as possible, but of a pixel-blocked image at most all
  // channels of one block.
  void find_rows(const qn_tensor& in, const qn_tensor& out) {
    Nest<2> rows, outer;
    for (uint32_t i = out.rank - 1; i-- > 0;) {
      const bool inner = !blocked_ || i == 2;
      (inner ? rows : outer).add(out.shape[i], {in.stride[i], out.stride[i]});
    }
    if (rows.rank > 0) rows_ = rows.loops[0].count, stride_ = rows.loops[0].stride;
    for (size_t i = 1; i < rows.rank; ++i) outer_.add(rows.loops[i].count, rows.loops[i].stride);
    for (size_t i = 0; i < outer.rank; ++i) outer_.add(outer.loops[i].count, outer.loops[i].stride);
  }

  const ChannelRow& row_;
  bool blocked_;
  Vector<float> scale_, bias_;
  qn_minmax_f32 clamp_;
  size_t columns_, rows_ = 1;
  std::array<size_t, 2> stride_ = {};  // from one row to the next
  Nest<2> outer_;
  Split row_split_, task_split_;
};

class Channel final : public Operator {
 public:
  Channel(const char* who, ChannelKind kind, const qn_channel_params& p, Vector<float> scale, Vector<float> bias)
      : Operator(who, 1, 1), kind_(kind), scale_(std::move(scale)), bias_(std::move(bias)), clamp_{p.min, p.max} {
    takes_blocked = true;
    in_place = 1;
  }

  qn_status infer(std::span<const qn_tensor> ins, qn_tensor* out) const override {
    const qn_tensor& in = ins[0];
    if (in.rank == 0 || in.shape[in.rank - 1] != scale_.size()) {
      return fail(QN_INVALID_ARGUMENT, "%s: the input's last dimension is not %zu channels", name, scale_.size());
    }
    return infer_same(ins, out);
  }

  qn_status plan(const Request& request, PlanPointer* plan) const override {
    QN_TRY(MemoryRequest(request).check(name));
    const ChannelRow* row = select(channel_rows(), KernelType::f32, request.options.kernel, [&](const ChannelRow& r) {
      return r.kind == kind_ && r.layout == request.out.layout;
    });
    if (row == nullptr) return no_kernel(name, request.options.kernel);
    *plan = make_plan<ChannelPlan>(request, *row, scale_, bias_, clamp_);
    return QN_OK;
  }

 private:
  ChannelKind kind_;
  Vector<float> scale_, bias_;
  qn_minmax_f32 clamp_;
};

Vector<float> floats_or(const float* values, size_t count, float value) {
  return values == nullptr ? Vector<float>(count, value) : Vector<float>(values, values + count);
}

qn_status read_channel_params(const char* who, const qn_channel_params* user, qn_operator** op, qn_channel_params* p) {
  QN_TRY(read_params(who, user, qn_channel_params_init, op, p));
  QN_TRY(check_positive(who, "channels", p->channels));
  if (p->channels > PTRDIFF_MAX / sizeof(float)) return fail(QN_INVALID_ARGUMENT, "%s: channels overflow", who);
  return check_clamp(who, p->min, p->max);
}

qn_status create_prelu(const qn_channel_params* params, const float* slope, qn_operator** op) {
  qn_channel_params p;
  QN_TRY(read_channel_params("prelu", params, op, &p));
  if (slope == nullptr) return fail(QN_INVALID_ARGUMENT, "prelu: slope is NULL");
  QN_TRY(check_aligned("prelu", "slope", slope));
  return make_operator<Channel>(op, "prelu", ChannelKind::prelu, p, floats_or(slope, p.channels, 0), Vector<float>());
}

qn_status create_scale(const qn_channel_params* params, const float* scale, const float* bias, qn_operator** op) {
  qn_channel_params p;
  QN_TRY(read_channel_params("scale", params, op, &p));
  QN_TRY(check_aligned("scale", "scale", scale));
  QN_TRY(check_aligned("scale", "bias", bias));
  return make_operator<Channel>(op, "scale", ChannelKind::scale, p, floats_or(scale, p.channels, 1),
                                floats_or(bias, p.channels, 0));
}

qn_status create_batch_norm(const qn_channel_params* params, const float* mean, const float* variance,
                            const float* gamma, const float* beta, float epsilon, qn_operator** op) {
  static constexpr char who[] = "batch_norm";  // static, because the operator keeps its address
  qn_channel_params p;
  QN_TRY(read_channel_params(who, params, op, &p));
  if (mean == nullptr || variance == nullptr) {
    return fail(QN_INVALID_ARGUMENT, "%s: %s is NULL", who, mean == nullptr ? "mean" : "variance");
  }
  const struct {
    const char* what;
    const float* values;
  } arrays[] = {{"mean", mean}, {"variance", variance}, {"gamma", gamma}, {"beta", beta}};
  for (const auto& array : arrays) QN_TRY(check_aligned(who, array.what, array.values));
  Vector<float> scale(p.channels), bias(p.channels);
  for (size_t c = 0; c < p.channels; ++c) {
    const double spread = static_cast<double>(variance[c]) + static_cast<double>(epsilon);
    if (!(spread > 0)) {
      return fail(QN_INVALID_ARGUMENT, "%s: variance[%zu] %g plus epsilon %g is not positive", who, c,
                  static_cast<double>(variance[c]), static_cast<double>(epsilon));
    }
    const double s = (gamma == nullptr ? 1.0 : static_cast<double>(gamma[c])) / std::sqrt(spread);
    scale[c] = static_cast<float>(s);
    bias[c] =
        static_cast<float>((beta == nullptr ? 0.0 : static_cast<double>(beta[c])) - static_cast<double>(mean[c]) * s);
  }
  return make_operator<Channel>(op, who, ChannelKind::scale, p, std::move(scale), std::move(bias));
}

}  // namespace
}  // namespace quern

extern "C" {

void qn_binary_params_init_sized(qn_binary_params* params, size_t size) {
  qn_binary_params p = {};
  p.type = QN_F32;
  p.min = -std::numeric_limits<float>::infinity();
  p.max = std::numeric_limits<float>::infinity();
  quern::init_struct(params, size, p);
}

qn_status qn_binary_create(const qn_binary_params* params, qn_operator** op) {
  return quern::guarded([=] { return quern::create_binary(params, op); });
}

void qn_unary_params_init_sized(qn_unary_params* params, size_t size) {
  qn_unary_params p = {};
  p.type = QN_F32;
  p.beta = std::numeric_limits<float>::infinity();
  p.gamma = 1;
  quern::init_struct(params, size, p);
}

qn_status qn_unary_create(const qn_unary_params* params, qn_operator** op) {
  return quern::guarded([=] { return quern::create_unary(params, op); });
}

void qn_channel_params_init_sized(qn_channel_params* params, size_t size) {
  qn_channel_params p = {};
  p.type = QN_F32;
  p.min = -std::numeric_limits<float>::infinity();
  p.max = std::numeric_limits<float>::infinity();
  quern::init_struct(params, size, p);
}

qn_status qn_prelu_create(const qn_channel_params* params, const float* slope, qn_operator** op) {
  return quern::guarded([=] { return quern::create_prelu(params, slope, op); });
}

qn_status qn_scale_create(const qn_channel_params* params, const float* scale, const float* bias, qn_operator** op) {
  return quern::guarded([=] { return quern::create_scale(params, scale, bias, op); });
}

qn_status qn_batch_norm_create(const qn_channel_params* params, const float* mean, const float* variance,
                               const float* gamma, const float* beta, float epsilon, qn_operator** op) {
  return quern::guarded([=] { return quern::create_batch_norm(params, mean, variance, gamma, beta, epsilon, op); });
}

}  // extern "C"
