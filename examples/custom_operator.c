/* An operator of a program's own: registers a kind of nodes, then runs a model that contains one.
 *
 *     custom_operator MODEL.qn
 *
 * custom/average.qn has one node of the kind "example_moving_average", which this program computes: each element becomes
 * the average of itself and the elements before it in its row, `window` elements at most. */
#include <quern/quern.h>
#include <stdio.h>
#include <stdlib.h>

static void check(qn_status status) {
  if (status == QN_OK) return;
  fprintf(stderr, "%s: %s\n", qn_status_string(status), qn_last_message());
  exit(1);
}

/* A node's parameter. Files are not to be trusted: infer() below refuses a node without a window. */
static size_t window_of(const qn_node* node) {
  size_t count;
  const int64_t* window = qn_node_integers(node, "window", &count);
  return count == 1 && window[0] > 0 && window[0] < 1000000 ? (size_t)window[0] : 0;
}

/* Checks the node, and gives the output its shape. The library has checked how many inputs and outputs there are. */
static qn_status infer(const qn_node* node, const qn_operand* inputs, size_t input_count, qn_tensor* outputs,
                       size_t output_count) {
  (void)input_count, (void)output_count;
  const qn_tensor* x = &inputs[0].tensor;
  if (x->type != QN_F32 || outputs[0].type != QN_F32 || x->rank == 0)
    return qn_fail(QN_UNSUPPORTED, "moving averages are of rows of f32");
  if (window_of(node) == 0) return qn_fail(QN_BAD_MODEL, "a moving average has no window");
  outputs[0].rank = x->rank;
  for (uint32_t d = 0; d < x->rank; d++) outputs[0].shape[d] = x->shape[d];
  return QN_OK;
}

static qn_status run(const qn_node_run* run) {
  const qn_tensor* tensor = &run->inputs[0].tensor;
  const float* x = run->inputs[0].data;
  float* y = run->outputs[0].data;
  const size_t columns = tensor->shape[tensor->rank - 1], window = window_of(run->node);
  const size_t count = qn_tensor_bytes(tensor) / sizeof *x;
  for (size_t i = 0; i < count; i++) {
    const size_t before = i % columns; /* elements before it in the row */
    const size_t used = before + 1 < window ? before + 1 : window;
    float sum = 0;
    for (size_t k = 0; k < used; k++) sum += x[i - k];
    y[i] = sum / (float)used;
  }
  return QN_OK;
}

static const qn_kind kinds[] = {{.struct_size = sizeof(qn_kind),
                                 .name = "example_moving_average",
                                 .min_inputs = 1,
                                 .max_inputs = 1,
                                 .max_outputs = 1,
                                 .infer = infer,
                                 .run = run}};

int main(int argc, char** argv) {
  if (argc < 2) return fprintf(stderr, "usage: custom_operator MODEL.qn\n"), 1;
  qn_model* model;
  qn_session* session;
  check(qn_register_kinds(kinds, 1)); /* before models that need it are loaded */
  check(qn_model_load_file(argv[1], NULL, &model));
  check(qn_session_create(model, NULL, &session));

  const float x[2][4] = {{2, 4, 6, 8}, {1, -1, 1, -1}};
  const float expected[2][4] = {{2, 3, 4, 6}, {1, 0, 1.0f / 3, -1.0f / 3}}; /* a window of 3 */
  const void *inputs[] = {x}, *output;
  check(qn_session_run(session, inputs));
  check(qn_session_output(session, 0, &output));
  const float* y = output;
  int wrong = 0;
  for (int i = 0; i < 8; i++) {
    printf("%g%s", (double)y[i], i % 4 == 3 ? "\n" : " ");
    wrong |= y[i] != expected[i / 4][i % 4];
  }
  qn_session_release(session);
  qn_model_release(model);
  return wrong;
}
