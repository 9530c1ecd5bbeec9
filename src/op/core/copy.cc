#include "op/core/copy.h"

#include "base/math.h"
#include "base/search.h"
#include "base/shuffle.h"

namespace quern {
namespace {

// The size that has the most fast functions; bytes have some, elements of other sizes are copied one by one.
constexpr size_t element = sizeof(float);
constexpr size_t min_task_copies = 16384;
constexpr size_t block = 16;       // floats of a cache line
constexpr size_t byte_block = 64;  // bytes of a cache line

enum { from, to };  // operands

// Which elements have fast functions that transpose them? Lists of trimmed builds name these like kernels. Without them
// they are copied one by one.
constexpr bool transposes_floats = has_family("copy_f32"), transposes_bytes = has_integers && has_family("copy_qs8");

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
Vec4 interleave_low(Vec4 a, Vec4 b) { return shuffle<0, 4, 1, 5>(a, b); }
Vec4 interleave_high(Vec4 a, Vec4 b) { return shuffle<2, 6, 3, 7>(a, b); }

// out[row j][i] = in[column i][j] for i, j in 0 .. 3
void transpose_4x4(const char* in, size_t in_stride, char* out, size_t out_stride) {
  const Vec4 a = load4(in), b = load4(in + in_stride), c = load4(in + 2 * in_stride), d = load4(in + 3 * in_stride);
  const Vec4 ab0 = interleave_low(a, b), cd0 = interleave_low(c, d);
  const Vec4 ab1 = interleave_high(a, b), cd1 = interleave_high(c, d);
  store4(out, shuffle<0, 1, 4, 5>(ab0, cd0));
  store4(out + out_stride, shuffle<2, 3, 6, 7>(ab0, cd0));
  store4(out + 2 * out_stride, shuffle<0, 1, 4, 5>(ab1, cd1));
  store4(out + 3 * out_stride, shuffle<2, 3, 6, 7>(ab1, cd1));
}

// Transposes the remaining columns, which are fewer than a vector has.
template <size_t count, size_t item = element>
void transpose_narrow(const char* in, size_t in_stride, char* out, size_t out_stride, size_t rows) {
  for (size_t r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (size_t c = 0; c < count; ++c) {
      std::memcpy(out + r * out_stride + c * item, in + c * in_stride + r * item, item);
    }
  }
}

// The same for up to `most` columns, or none.
template <size_t item, size_t most>
void transpose_few(const char* in, size_t in_stride, char* out, size_t out_stride, size_t rows, size_t count) {
  if (small && item == 1) {  // not written out for each number
    for (size_t c = 0; c < count; ++c) transpose_narrow<1, item>(in + c * in_stride, 0, out + c, out_stride, rows);
    return;
  }
  if (count == most) return transpose_narrow<most, item>(in, in_stride, out, out_stride, rows);
  if constexpr (most > 1) transpose_few<item, most - 1>(in, in_stride, out, out_stride, rows, count);
}

// Transposes three columns into rows that follow each other, as the channels of an image with colours.
size_t interleave_three(const char* in, size_t in_stride, char* out, size_t rows) {
  size_t r = 0;
  for (; r + 4 <= rows; r += 4, in += sizeof(Vec4), out += 3 * sizeof(Vec4)) {
    const Vec4 a = load4(in), b = load4(in + in_stride), c = load4(in + 2 * in_stride);
    const Vec4 low = interleave_low(a, b), high = interleave_high(a, b);
    store4(out, shuffle<0, 1, 4, 2>(low, c));
    store4(out + sizeof(Vec4), shuffle<0, 1, 4, 5>(shuffle<3, 5, 3, 5>(low, c), high));
    store4(out + 2 * sizeof(Vec4), shuffle<6, 2, 3, 7>(high, c));
  }
  return r;
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
    size_t rows_done = 0;
    if (columns.end - c == 3 && out_stride == 3 * element) {
      rows_done = interleave_three(from_row, in_stride, to_row, r1 - r0);
    }
    transpose_few<element, 3>(from_row + rows_done * element, in_stride, to_row + rows_done * out_stride, out_stride,
                              r1 - r0 - rows_done, columns.end - c);
  }
}

// ---- bytes

typedef uint8_t Bytes16 __attribute__((vector_size(16)));
typedef uint16_t Pairs8 __attribute__((vector_size(16)));
typedef uint32_t Quads4 __attribute__((vector_size(16)));
typedef uint64_t Words2 __attribute__((vector_size(16)));

template <class T>
T load_as(const char* p) {
  T x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
// 8 bytes, and zeros behind them.
Bytes16 load8(const char* p) { return Bytes16(Words2{load_as<uint64_t>(p), 0}); }
void store8(char* p, uint64_t x) { std::memcpy(p, &x, sizeof x); }

Bytes16 zip_bytes(Bytes16 a, Bytes16 b) {
  return shuffle<0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23>(a, b);
}
Pairs8 zip_low(Pairs8 a, Pairs8 b) { return shuffle<0, 8, 1, 9, 2, 10, 3, 11>(a, b); }
Pairs8 zip_high(Pairs8 a, Pairs8 b) { return shuffle<4, 12, 5, 13, 6, 14, 7, 15>(a, b); }
Words2 zip_low(Quads4 a, Quads4 b) { return Words2(shuffle<0, 4, 1, 5>(a, b)); }
Words2 zip_high(Quads4 a, Quads4 b) { return Words2(shuffle<2, 6, 3, 7>(a, b)); }

// out[row j][i] = in[column i][j] for i, j in 0 .. 7
void transpose_8x8(const char* in, size_t in_stride, char* out, size_t out_stride) {
  Pairs8 pairs[4];
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) {
    pairs[i] = Pairs8(zip_bytes(load8(in + 2 * i * in_stride), load8(in + (2 * i + 1) * in_stride)));
  }
  const Quads4 first_low = Quads4(zip_low(pairs[0], pairs[1])), first_high = Quads4(zip_high(pairs[0], pairs[1]));
  const Quads4 last_low = Quads4(zip_low(pairs[2], pairs[3])), last_high = Quads4(zip_high(pairs[2], pairs[3]));
  const Words2 rows[] = {zip_low(first_low, last_low), zip_high(first_low, last_low), zip_low(first_high, last_high),
                         zip_high(first_high, last_high)};
#pragma GCC unroll 4
  for (size_t j = 0; j < 4; ++j) {
    store8(out + 2 * j * out_stride, rows[j][0]);
    store8(out + (2 * j + 1) * out_stride, rows[j][1]);
  }
}

// As interleave_three. Of each pair of rows it writes two bytes too many, which belong to the next rows.
size_t interleave_three_bytes(const char* in, size_t in_stride, char* out, size_t rows) {
  size_t r = 0;
  for (; r + 9 <= rows; r += 8, in += 8, out += 24) {
    const Pairs8 ab = Pairs8(zip_bytes(load8(in), load8(in + in_stride)));
    const Pairs8 c = Pairs8(zip_bytes(load8(in + 2 * in_stride), Bytes16{}));
    const Words2 low = Words2(zip_low(ab, c)), high = Words2(zip_high(ab, c));  // rows of a, b, c and 0
    constexpr uint64_t first = 0xffffff, second = first << 24;
    const Words2 four = (low & first) | (low >> 8 & second), next = (high & first) | (high >> 8 & second);
    store8(out, four[0]), store8(out + 6, four[1]);
    store8(out + 12, next[0]), store8(out + 18, next[1]);
  }
  return r;
}

// `transpose` for bytes.
void transpose_bytes(const Plane& p, const char* in, char* out, Range rows, Range columns) {
  const size_t in_stride = p.column.stride[from], out_stride = p.row.stride[to];
  const size_t step = columns.end - columns.begin < 8 ? rows.end - rows.begin : byte_block;
  for (size_t r0 = rows.begin; r0 < rows.end; r0 += step) {
    const size_t r1 = std::min(r0 + step, rows.end), r8 = r0 + (r1 - r0) / 8 * 8;
    size_t c = columns.begin;
    for (; c + 8 <= columns.end; c += 8) {
      const char* from_column = in + c * in_stride;
      char* to_column = out + c;
      for (size_t r = r0; r < r8; r += 8)
        transpose_8x8(from_column + r, in_stride, to_column + r * out_stride, out_stride);
      transpose_narrow<8, 1>(from_column + r8, in_stride, to_column + r8 * out_stride, out_stride, r1 - r8);
    }
    const char* from_row = in + c * in_stride + r0;
    char* to_row = out + c + r0 * out_stride;
    size_t rows_done = 0;
    if (columns.end - c == 3 && out_stride == 3) {
      rows_done = interleave_three_bytes(from_row, in_stride, to_row, r1 - r0);
    }
    transpose_few<1, 7>(from_row + rows_done, in_stride, to_row + rows_done * out_stride, out_stride,
                        r1 - r0 - rows_done, columns.end - c);
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
  const bool are_bytes = transposes_bytes && item == 1, are_floats = transposes_floats && item == element;
  const CopyPlane fast = transposes_bytes && (are_bytes || !transposes_floats) ? transpose_bytes : transpose;
  size_t row = 1;  // number of the loop that becomes the row of a plane
  if (nest.rank > 0) {
    job.plane.column = nest.loops[0];
    const size_t in_stride = nest.loops[0].stride[from], out_stride = nest.loops[0].stride[to];
    if (in_stride == item && out_stride == item) {
      job.copy = copy_rows;
    } else if ((are_floats || are_bytes) && in_stride != 0 && out_stride == item) {
      for (size_t i = 1; i < nest.rank; ++i) {
        if (nest.loops[i].stride[from] == item) row = i, job.copy = fast;
      }
    }
  }
  if (row < nest.rank) job.plane.row = nest.loops[row];
  if (transposes_bytes && job.copy == transpose_bytes) job.row_step = byte_block;
  if (transposes_floats && job.copy == transpose) {
    job.row_step = block;
    if (job.plane.column.count == 2 && job.plane.row.stride[to] == 2 * element) job.copy = interleave;
  }
  for (size_t i = 1; i < nest.rank; ++i) {
    if (i != row) job.outer.add(nest.loops[i].count, nest.loops[i].stride);
  }

  const size_t rows = job.plane.row.count, columns = job.plane.column.count, outer = job.outer.count();
  const size_t elements = outer * rows * columns;
  const size_t wanted = std::max(wanted_chunks(tasks), elements / Watch::interval);
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
      const size_t count = copy.nest.count();
      if (count == 0) continue;
      jobs_.push_back(make_job(copy, item, tasks));
      jobs_.back().first_item = items;
      items += jobs_.back().items();
      elements += count;
    }
    tasks_ = split(items, tasks, divide_up(items, std::max<size_t>(elements / min_task_copies, 1)));
    phases = {tasks_.chunks};
  }

  void task(const Run& run, size_t, size_t index) const override {
    Watch watch(run);
    for (size_t item = tasks_.begin(index), end = tasks_.end(index); item < end;) {
      // The last job that begins at or before the item.
      const auto after = std::upper_bound(jobs_.begin(), jobs_.end(), item,
                                          [](size_t i, const Job& job) { return i < job.first_item; });
      const Job& job = *std::prev(after);
      const size_t last = std::min(end, job.first_item + job.items());
      if (!run_items(run, job, item - job.first_item, last - job.first_item, &watch)) return;
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

  // Returns false if the task is to stop.
  bool run_items(const Run& run, const Job& job, size_t begin, size_t end, Watch* watch) const {
    const char* in = job.input == Copy::fill ? fill_value_.bytes : run.input(job.input) + job.in_offset;
    char* out = run.output + job.out_offset;
    if (in == out) return true;  // the input already lies where it belongs
    size_t piece = begin % (job.rows.chunks * job.columns.chunks);
    Cursor<2> at(job.outer, begin / (job.rows.chunks * job.columns.chunks));
    for (size_t i = begin; i < end; ++i) {
      const size_t r = piece / job.columns.chunks, c = piece % job.columns.chunks;
      const Range rows = {job.rows.begin(r) * job.row_step,
                          std::min(job.rows.end(r) * job.row_step, job.plane.row.count)};
      const Range columns = {job.columns.begin(c) * block,
                             std::min(job.columns.end(c) * block, job.plane.column.count)};
      if (watch->stops_here((rows.end - rows.begin) * (columns.end - columns.begin))) return false;
      job.copy(job.plane, in + at.offset(from), out + at.offset(to), rows, columns);
      if (++piece == job.rows.chunks * job.columns.chunks) piece = 0, at.next();
    }
    return true;
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
