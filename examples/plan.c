/* Several threads run one plan at the same time. A plan never changes, so threads can share it and its packed weights.
 * Each thread has its own workspace, input and output. Programs that answer many requests at once can work like
 * this. */
#include <math.h>
#include <pthread.h>
#include <quern/quern.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, RUNS = 8, SIDE = 28, CHANNELS = 32, KERNEL = 3, IMAGE = SIDE * SIDE * CHANNELS };

static void check(qn_status status) {
  if (status == QN_OK) return;
  fprintf(stderr, "%s: %s\n", qn_status_string(status), qn_last_message());
  exit(1);
}

/* Plans a 3x3 convolution whose weights are all 1. */
static qn_plan* make_plan(void) {
  static float weights[CHANNELS * KERNEL * KERNEL * CHANNELS]; /* must live as long as the plan */
  for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) weights[i] = 1;

  qn_conv2d_params params;
  qn_conv2d_params_init(&params);
  params.in_channels = params.out_channels = CHANNELS;
  params.kernel = (qn_hw){KERNEL, KERNEL};
  params.padding = (qn_padding){1, 1, 1, 1};
  qn_weights given;
  qn_weights_init(&given);
  given.data = weights;
  qn_operator* convolution;
  check(qn_conv2d_create(&params, &given, NULL, NULL, &convolution));

  const size_t shape[4] = {1, SIDE, SIDE, CHANNELS};
  qn_tensor input;
  check(qn_tensor_init(&input, QN_F32, 4, shape));
  qn_plan_options options;
  qn_plan_options_init(&options);
  options.algorithm = QN_ALGORITHM_WINOGRAD; /* needs a workspace on every machine */
  qn_plan* plan;
  check(qn_operator_plan(convolution, &input, 1, NULL, 0, &options, &plan));
  qn_operator_release(convolution);
  return plan;
}

struct worker {
  pthread_t thread;
  const qn_plan* plan;
  float pixel;     /* every element of this thread's images */
  int right_times; /* how many runs gave the right answer */
};

static void* work(void* context) {
  struct worker* worker = context;
  const size_t size = (qn_plan_workspace_size(worker->plan) + 63) / 64 * 64;
  void* workspace = aligned_alloc(64, size);
  float *input = malloc(IMAGE * sizeof *input), *output = malloc(IMAGE * sizeof *output);
  if (workspace == NULL || input == NULL || output == NULL) {
    fprintf(stderr, "out of memory\n");
    exit(1);
  }
  for (int i = 0; i < IMAGE; i++) input[i] = worker->pixel;
  const void* inputs[1] = {input};
  void* outputs[1] = {output};
  const float want = worker->pixel * KERNEL * KERNEL * CHANNELS; /* for all pixels but those at the border */
  for (int run = 0; run < RUNS; run++) {
    check(qn_plan_run(worker->plan, inputs, outputs, workspace, size, NULL)); /* NULL: use this thread only */
    int right = 1;
    for (int y = 1; y < SIDE - 1; y++)
      for (int i = CHANNELS; i < (SIDE - 1) * CHANNELS; i++)
        right &= fabsf(output[y * SIDE * CHANNELS + i] - want) <= 1e-4f * want;
    worker->right_times += right;
  }
  free(workspace);
  free(input);
  free(output);
  return NULL;
}

int main(void) {
  qn_plan* plan = make_plan();
  struct worker workers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (struct worker){.plan = plan, .pixel = (float)(i + 1)};
    if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
      fprintf(stderr, "no thread\n");
      return 1;
    }
  }
  int right = 0;
  for (int i = 0; i < THREADS; i++) {
    pthread_join(workers[i].thread, NULL);
    right += workers[i].right_times;
  }
  printf("%d of %d runs right, each with %zu bytes of workspace\n", right, THREADS * RUNS,
         qn_plan_workspace_size(plan));
  qn_plan_release(plan);
  return right != THREADS * RUNS;
}
