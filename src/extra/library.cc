#include "extra/library.h"

#include <cmath>
#include <vector>

#include "extra/map.h"

namespace quern::extra {

void check(qn_status status) {
  if (status != QN_OK) throw Fault{status, qn_last_message()};
}

Operator product_of(size_t columns, size_t depth, const float* weights, const float* bias) {
  qn_fully_connected_params params;
  qn_fully_connected_params_init(&params);
  params.in_channels = depth;
  params.out_channels = columns;
  qn_weights w;
  qn_weights_init(&w);
  w.data = weights;
  qn_operator* op;
  check(qn_fully_connected_create(&params, &w, bias, nullptr, &op));
  return Operator(op);
}

Plan plan_rows(const qn_operator* product, size_t rows, size_t depth, size_t tasks) {
  const size_t shape[] = {rows, depth};
  qn_tensor input;
  check(qn_tensor_init(&input, QN_F32, 2, shape));
  qn_plan_options options;
  qn_plan_options_init(&options);
  options.tasks = tasks;
  qn_plan* plan;
  check(qn_operator_plan(product, &input, 1, nullptr, 0, &options, &plan));
  return Plan(plan);
}

void run_plan(const qn_plan* plan, const void* input, void* output, void* workspace, const qn_parallel* parallel) {
  check(qn_plan_run(plan, &input, &output, workspace, qn_plan_workspace_size(plan), parallel));
}

BlockFunction::BlockFunction(qn_unary_kind kind) {
  qn_unary_params params;
  qn_unary_params_init(&params);
  params.kind = kind;
  qn_operator* op;
  check(qn_unary_create(&params, &op));
  plan_ = plan_rows(Operator(op).get(), 1, block_length, 1);
}

qn_status BlockFunction::operator()(float (&block)[block_length]) const {
  const void* const input = block;
  void* const output = block;
  return qn_plan_run(plan_.get(), &input, &output, nullptr, 0, nullptr);
}

std::vector<float> transposed_copy(const float* from, size_t rows, size_t columns, size_t distance) {
  std::vector<float> to(Layout::product(rows, columns));
  Pace pace;
  for (size_t r = 0; r < rows; ++r) {
    pace.did(columns);
    for (size_t c = 0; c < columns; ++c) to[c * rows + r] = from[r * distance + c];
  }
  return to;
}

namespace {

// Few rows are not worth packing the other factor.
void multiply_row(size_t n, size_t k, const float* a, Factor<float> b, float* c) {
  std::fill_n(c, n, 0.0f);
  Pace pace;
  for (size_t l = 0; l < k; ++l) {
    pace.did(n);
    for (size_t j = 0; j < n; ++j) c[j] += a[l] * b.data[l * b.distance + j];
  }
}

}  // namespace

void matrix_product(size_t m, size_t n, size_t k, Factor<float> a, Factor<float> b, float* c, size_t distance,
                    const qn_parallel* parallel) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (size_t i = 0; i < m; ++i) std::fill_n(c + i * distance, n, 0.0f);
    return;
  }
  std::vector<float> rows;
  if (a.transposed) {
    rows = transposed_copy(a.data, k, m, a.distance);
    a = {rows.data(), k};
  }
  constexpr size_t few = 3;
  if (m <= few && !b.transposed) {
    for (size_t i = 0; i < m; ++i) multiply_row(n, k, a.data + i * a.distance, b, c + i * distance);
    return;
  }
  check(qn_gemm_f32(m, n, k, a.data, a.distance, b.data, b.distance, b.transposed, nullptr, -INFINITY, INFINITY, c,
                    distance, parallel));
}

size_t Layout::bytes(size_t count) {
  constexpr size_t line = 64;
  const size_t at = size_;
  if (count > SIZE_MAX / 2 - size_) throw Fault{QN_OUT_OF_MEMORY, "the workspace is too large"};
  size_ = (size_ + count + line - 1) / line * line;
  return at;
}

size_t Layout::product(size_t a, size_t b) {
  if (b != 0 && a > SIZE_MAX / b) throw Fault{QN_OUT_OF_MEMORY, "the workspace is too large"};
  return a * b;
}

}  // namespace quern::extra
