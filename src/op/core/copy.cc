#include "op/core/copy.h"

#include "base/math.h"
#include "base/search.h"

namespace quern {
namespace {

constexpr size_t element = sizeof(float);  // the size with fast functions; others are copied one by one, or as rows
constexpr size_t min_task_copies = 16384;
constexpr size_t block = 16;  // elements of a cache line

enum { from, to };  // operands

// Two loops of a copy. Columns follow each other in the output; rows follow each other in the input where columns do
// not (a transpose).
struct Plane {
  Nest<2>::Loop row = {1, {0, 0}}, column = {1, {element, element}};
  size_t item = element;  // bytes of an element
};

struct Range {
  size_t begin, end;
};

void copy_rows(const Plane& p, const char* in, char* out, Range rows, Range columns) {
  const size_t bytes = (columns.end - columns.begin) * p.item, first = columns.begin * p.item;
  for (size_t r = rows.begin; r < rows.end; ++r) {
    std::memcpy(out + r * p.row.stride[to] + first, in + r * p.row.stride[from] + first, bytes);
  }
}

// Copies element by element, with any strides. With a stride of 0 it repeats a value.
void copy_elements(const Plane& p, const char* in, char* out, Range rows, Range columns) {
  for (size_t r = rows.begin; r < rows.end; ++r) {
    for (size_t c = columns.begin; c < columns.end; ++c) {
      *reinterpret_cast<float*>(out + r * p.row.stride[to] + c * p.column.stride[to]) =
          *reinterpret_cast<const float*>(in + r * p.row.stride[from] + c * p.column.stride[from]);
    }
  }
}

// Does the same for elements of any size.
void copy_items(const Plane& p, const char* in, char* out, Range rows, Range columns) {
  for (size_t r = rows.begin; r < rows.end; ++r) {
    for (size_t c = columns.begin; c < columns.end; ++c) {
      const char* const source = in + r * p.row.stride[from] + c * p.column.stride[from];
      char* const target = out + r * p.row.stride[to] + c * p.column.stride[to];
      for (size_t i = 0; i < p.item; ++i) target[i] = source[i];
    }
  }
}

typedef float Vec4 __attribute__((vector_size(16)));

Vec4 load4(const char* p) {
  Vec4 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
void store4(char* p, Vec4 v) { std::memcpy(p, &v, sizeof v); }
Vec4 interleave_low(Vec4 a, Vec4 b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
Vec4 interleave_high(Vec4 a, Vec4 b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }

// out[row j][i] = in[column i][j] for i, j in 0 .. 3
void transpose_4x4(const char* in, size_t in_stride, char* out, size_t out_stride) {
  const Vec4 a = load4(in), b = load4(in + in_stride), c = load4(in + 2 * in_stride), d = load4(in + 3 * in_stride);
  const Vec4 ab0 = interleave_low(a, b), cd0 = interleave_low(c, d);
  const Vec4 ab1 = interleave_high(a, b), cd1 = interleave_high(c, d);
  store4(out, __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5));
  store4(out + out_stride, __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7));
  store4(out + 2 * out_stride, __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5));
  store4(out + 3 * out_stride, __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7));
}

// Transposes the remaining columns, which are fewer than a vector has.
template <size_t count>
void transpose_narrow(const char* in, size_t in_stride, char* out, size_t out_stride, size_t rows) {
  for (size_t r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (size_t c = 0; c < count; ++c) {
      std::memcpy(out + r * out_stride + c * element, in + c * in_stride + r * element, element);
    }
  }
}

// Transposes a plane: rows follow each other in the input, columns in the output. It takes a block of rows at a time.
// So it uses all of a cache line that it reads before the line leaves the cache, and it writes to few rows at a time.
void transpose(const Plane& p, const char* in, char* out, Range rows, Range columns) {
  const size_t in_stride = p.column.stride[from], out_stride = p.row.stride[to];
  for (size_t r0 = rows.begin; r0 < rows.end; r0 += block) {
    const size_t r1 = std::min(r0 + block, rows.end), r4 = r0 + (r1 - r0) / 4 * 4;
    size_t c = columns.begin;
    for (; c + 4 <= columns.end; c += 4) {
      const char* from_column = in + c * in_stride;
      char* to_column = out + c * element;
      for (size_t r = r0; r < r4; r += 4) {
        transpose_4x4(from_column + r * element, in_stride, to_column + r * out_stride, out_stride);
      }
      transpose_narrow<4>(from_column + r4 * element, in_stride, to_column + r4 * out_stride, out_stride, r1 - r4);
    }
    const char* from_row = in + c * in_stride + r0 * element;
    char* to_row = out + c * element + r0 * out_stride;
    switch (columns.end - c) {
      case 3: transpose_narrow<3>(from_row, in_stride, to_row, out_stride, r1 - r0); break;
      case 2: transpose_narrow<2>(from_row, in_stride, to_row, out_stride, r1 - r0); break;
      case 1: transpose_narrow<1>(from_row, in_stride, to_row, out_stride, r1 - r0); break;
      default: break;
    }
  }
}

// Transposes two columns into pairs that follow each other, as a channel shuffle with two groups needs it.
void interleave(const Plane& p, const char* in, char* out, Range rows, Range) {
  const char* second = in + p.column.stride[from];
  size_t r = rows.begin;
  for (; r + 4 <= rows.end; r += 4) {
    const Vec4 a = load4(in + r * element), b = load4(second + r * element);
    store4(out + 2 * r * element, interleave_low(a, b));
    store4(out + 2 * r * element + sizeof(Vec4), interleave_high(a, b));
  }
  transpose_narrow<2>(in + r * element, p.column.stride[from], out + 2 * r * element, 2 * element, rows.end - r);
}

using CopyPlane = void (*)(const Plane&, const char*, char*, Range, Range);

// A copy, ready to run: how to copy a plane, the loops around it, and how planes are divided.
struct Job {
  size_t input = 0, in_offset = 0, out_offset = 0;
  Plane plane;
  CopyPlane copy = copy_elements;
  Nest<2> outer;
  size_t row_step = 1;
  Split rows, columns;  // rows in steps, columns in blocks
  size_t first_item = 0;

  size_t items() const { return outer.count() * rows.chunks * columns.chunks; }
};

Job make_job(const Copy& copy, size_t item, size_t tasks) {
  Job job;
  job.plane.item = item;
  if (has_integers && item != element) job.copy = copy_items;
  job.input = copy.input;
  job.in_offset = copy.in_offset;
  job.out_offset = copy.out_offset;
  const Nest<2>& nest = copy.nest;
  size_t row = 1;  // number of the loop that becomes the row of a plane
  if (nest.rank > 0) {
    job.plane.column = nest.loops[0];
    const size_t in_stride = nest.loops[0].stride[from], out_stride = nest.loops[0].stride[to];
    if (in_stride == item && out_stride == item) {
      job.copy = copy_rows;
    } else if (item == element && in_stride != 0 && out_stride == element) {
      for (size_t i = 1; i < nest.rank; ++i) {
        if (nest.loops[i].stride[from] == element) row = i, job.copy = transpose;
      }
    }
  }
  if (row < nest.rank) job.plane.row = nest.loops[row];
  if (job.copy == transpose) {
    job.row_step = block;
    if (job.plane.column.count == 2 && job.plane.row.stride[to] == 2 * element) job.copy = interleave;
  }
  for (size_t i = 1; i < nest.rank; ++i) {
    if (i != row) job.outer.add(nest.loops[i].count, nest.loops[i].stride);
  }

  const size_t rows = job.plane.row.count, columns = job.plane.column.count, outer = job.outer.count();
  const size_t elements = outer * rows * columns, wanted = wanted_chunks(tasks);
  const size_t worth = std::clamp<size_t>(elements / min_task_copies, 1, wanted);
  const size_t pieces = divide_up(worth, std::min(outer, worth));
  job.rows = {divide_up(rows, job.row_step), 1};
  job.rows.chunks = std::min(pieces, job.rows.count);
  job.columns = {divide_up(columns, block), 1};
  job.columns.chunks = std::min(divide_up(pieces, job.rows.chunks), job.columns.count);
  return job;
}

class CopiesPlan final : public qn_plan {
 public:
  CopiesPlan(const Request& request, const Vector<Copy>& copies, const FillValue& fill_value)
      : fill_value_(fill_value) {
    const size_t tasks = request.options.tasks, item = has_integers ? qn_type_size(request.out.type) : element;
    size_t items = 0, elements = 0;
    if (has_api("op")) find_places(request.ins.size(), copies);
    for (const Copy& copy : copies) {
      jobs_.push_back(make_job(copy, item, tasks));
      jobs_.back().first_item = items;
      items += jobs_.back().items();
      elements += copy.nest.count();
    }
    tasks_ = split(items, tasks, divide_up(items, std::max<size_t>(elements / min_task_copies, 1)));
    phases = {tasks_.chunks};
  }

  void task(const Run& run, size_t, size_t index) const override {
    for (size_t item = tasks_.begin(index), end = tasks_.end(index); item < end;) {
      // The last job that begins at or before the item.
      const auto after = std::upper_bound(jobs_.begin(), jobs_.end(), item,
                                          [](size_t i, const Job& job) { return i < job.first_item; });
      const Job& job = *std::prev(after);
      const size_t last = std::min(end, job.first_item + job.items());
      run_items(run, job, item - job.first_item, last - job.first_item);
      item = last;
    }
  }

 private:
  void find_places(size_t count, const Vector<Copy>& copies) {
    inputs.resize(count);
    for (const Copy& copy : copies) {
      if (copy.input == Copy::fill || !same_strides(copy.nest)) continue;
      inputs[copy.input].place = static_cast<ptrdiff_t>(copy.out_offset - copy.in_offset);
    }
  }
  static bool same_strides(const Nest<2>& nest) {
    return all_of(std::span(nest.loops.data(), nest.rank),
                  [](const auto& loop) { return loop.stride[from] == loop.stride[to]; });
  }

  void run_items(const Run& run, const Job& job, size_t begin, size_t end) const {
    const char* in = job.input == Copy::fill ? fill_value_.bytes : run.input(job.input) + job.in_offset;
    char* out = run.output + job.out_offset;
    if (in == out) return;  // the input already lies where it belongs
    size_t piece = begin % (job.rows.chunks * job.columns.chunks);
    Cursor<2> at(job.outer, begin / (job.rows.chunks * job.columns.chunks));
    for (size_t i = begin; i < end; ++i) {
      const size_t r = piece / job.columns.chunks, c = piece % job.columns.chunks;
      const Range rows = {job.rows.begin(r) * job.row_step,
                          std::min(job.rows.end(r) * job.row_step, job.plane.row.count)};
      const Range columns = {job.columns.begin(c) * block,
                             std::min(job.columns.end(c) * block, job.plane.column.count)};
      job.copy(job.plane, in + at.offset(from), out + at.offset(to), rows, columns);
      if (++piece == job.rows.chunks * job.columns.chunks) piece = 0, at.next();
    }
  }

  Vector<Job> jobs_;
  FillValue fill_value_;
  Split tasks_;
};

}  // namespace

Nest<2> copy_nest(uint32_t rank, const size_t* shape, const size_t* in_stride, const size_t* out_stride) {
  Nest<2> nest;
  for (uint32_t i = rank; i-- > 0;) nest.add(shape[i], {in_stride[i], out_stride[i]});
  return nest;
}

PlanPointer plan_copies(const Request& request, const Vector<Copy>& copies, const FillValue& fill_value) {
  return make_plan<CopiesPlan>(request, copies, fill_value);
}

}  // namespace quern
