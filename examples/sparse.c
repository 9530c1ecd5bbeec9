/* A fully-connected layer whose weights are a matrix with few nonzeros. The program gives the nonzeros to the library
 * row by row (CSR) and in blocks of rows, and checks that the results are those of the whole matrix. */
#include <quern/quern.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 5, OUT = 64, IN = 256, LARGEST_BLOCK = 4 };

static void check(qn_status status) {
  if (status == QN_OK) return;
  fprintf(stderr, "%s: %s\n", qn_status_string(status), qn_last_message());
  exit(1);
}

/* The arrays that qn_weights needs to describe the nonzeros. */
struct nonzeros {
  float values[OUT * IN];
  uint32_t positions[OUT * IN], starts[OUT + 1];
};

/* Divides the matrix into blocks of `block` successive rows (output channels). For each block, stores every column in
 * which at least one row is not zero, and describes the result in `weights`. */
static void find_nonzeros(const float* matrix, uint32_t block, struct nonzeros* found, qn_weights* weights) {
  uint32_t stored = 0, block_row = 0;
  for (uint32_t first = 0; first < OUT; first += block) {
    found->starts[block_row++] = stored;
    for (uint32_t column = 0; column < IN; column++) {
      int any = 0;
      for (uint32_t c = 0; c < block; c++) {
        const float value = matrix[(first + c) * IN + column];
        found->values[stored * block + c] = value; /* the next column overwrites it if all rows are zero */
        any |= value != 0;
      }
      found->positions[stored] = column;
      stored += (uint32_t)any;
    }
  }
  found->starts[block_row] = stored;

  qn_weights_init(weights);
  weights->encoding = QN_WEIGHTS_SPARSE;
  weights->block = block;
  weights->data = found->values;
  weights->positions = found->positions;
  weights->starts = found->starts;
  weights->stored = stored;
}

/* Runs the layer: from ROWS rows of IN numbers it makes ROWS rows of OUT numbers. */
static void multiply(const char* name, const qn_weights* weights, const float* x, float* y) {
  qn_fully_connected_params params;
  qn_fully_connected_params_init(&params);
  params.in_channels = IN;
  params.out_channels = OUT;
  qn_operator* layer;
  check(qn_fully_connected_create(&params, weights, NULL, NULL, &layer));

  const size_t shape[2] = {ROWS, IN};
  qn_tensor input;
  check(qn_tensor_init(&input, QN_F32, 2, shape));
  qn_plan* plan;
  check(qn_operator_plan(layer, &input, 1, NULL, 0, NULL, &plan));
  qn_operator_release(layer);

  const size_t size = (qn_plan_workspace_size(plan) + 63) / 64 * 64;
  void* workspace = size > 0 ? aligned_alloc(64, size) : NULL;
  const void* inputs[1] = {x};
  void* outputs[1] = {y};
  check(qn_plan_run(plan, inputs, outputs, workspace, size, NULL));
  free(workspace);
  printf("%-12s algorithm %s, kernel %s\n", name, qn_algorithm_string(qn_plan_algorithm(plan)), qn_plan_kernel(plan));
  qn_plan_release(plan);
}

int main(void) {
  /* All numbers are small integers, so that sums are exact in any order. Of ten blocks (four rows of one column), nine
   * are all zeros. */
  static float matrix[OUT * IN], x[ROWS * IN], want[ROWS * OUT], y[ROWS * OUT];
  for (int i = 0; i < OUT * IN; i++) {
    const int block = i / IN / LARGEST_BLOCK * IN + i % IN;
    matrix[i] = block * 7 % 10 == 0 ? (float)(1 + i % 5) : 0;
  }
  for (int i = 0; i < ROWS * IN; i++) x[i] = (float)(i % 7 - 3);
  for (int row = 0; row < ROWS; row++)
    for (int o = 0; o < OUT; o++)
      for (int i = 0; i < IN; i++) want[row * OUT + o] += matrix[o * IN + i] * x[row * IN + i];

  int wrong = 0;
  for (uint32_t block = 1; block <= LARGEST_BLOCK; block *= LARGEST_BLOCK) {
    static struct nonzeros found; /* must not change while the operator or plan lives */
    qn_weights weights;
    find_nonzeros(matrix, block, &found, &weights);
    char name[32];
    snprintf(name, sizeof name, "blocks of %u", block);
    multiply(name, &weights, x, y);
    wrong |= memcmp(y, want, sizeof y) != 0;
  }

  /* The same with the whole matrix: Quern finds the zeros by itself. */
  qn_weights whole;
  qn_weights_init(&whole);
  whole.data = matrix;
  multiply("whole", &whole, x, y);
  wrong |= memcmp(y, want, sizeof y) != 0;
  if (wrong) fprintf(stderr, "wrong numbers\n");
  return wrong;
}
