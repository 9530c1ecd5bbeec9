/* Runs one convolution without a model, in three steps: create, plan, run. The program brings its own threads. */
#include <math.h>
#include <pthread.h>
#include <quern/quern.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 56, IN = 16, OUT = 32, KERNEL = 3, THREADS = 2 };

static void check(qn_status status) {
  if (status == QN_OK) return;
  fprintf(stderr, "%s: %s\n", qn_status_string(status), qn_last_message());
  exit(1);
}

/* The tasks of one call of run_tasks(). Each thread takes one task after the other until none is left. */
struct work {
  void (*task)(void* arg, size_t index);
  void* arg;
  size_t count;
  atomic_size_t next;
};

static void* take_tasks(void* context) {
  struct work* work = context;
  for (size_t i; (i = atomic_fetch_add(&work->next, 1)) < work->count;) work->task(work->arg, i);
  return NULL;
}

/* The function for qn_parallel.run. A real program keeps threads that wait for work; to stay short, this one makes new
 * threads for each call. */
static void run_tasks(void* context, void (*task)(void* arg, size_t index), void* arg, size_t count) {
  atomic_size_t* calls = context;
  atomic_fetch_add(calls, 1);
  struct work work = {task, arg, count, 0};
  pthread_t threads[THREADS - 1];
  int running = 0;
  while (running < THREADS - 1 && pthread_create(&threads[running], NULL, take_tasks, &work) == 0) running++;
  take_tasks(&work); /* takes all tasks if the system gave no threads */
  while (running > 0) pthread_join(threads[--running], NULL);
}

/* Computes the right result from the formula: output channel `o` of the pixel at row `y`, column `x`. */
static float expected(const float* image, const float* weights, const float* bias, int y, int x, int o) {
  double sum = bias[o];
  for (int v = 0; v < KERNEL; v++)
    for (int u = 0; u < KERNEL; u++) {
      const int row = y + v - KERNEL / 2, column = x + u - KERNEL / 2;
      if (row < 0 || row >= SIDE || column < 0 || column >= SIDE) continue;
      for (int i = 0; i < IN; i++)
        sum += (double)image[(row * SIDE + column) * IN + i] * weights[((o * KERNEL + v) * KERNEL + u) * IN + i];
    }
  return sum > 0 ? (float)sum : 0;
}

/* Returns the largest difference between the result and the formula, divided by the largest value of the formula. */
static double largest_error(const float* image, const float* weights, const float* bias, const float* result) {
  double error = 0, largest = 0;
  for (int y = 0; y < SIDE; y++)
    for (int x = 0; x < SIDE; x++)
      for (int o = 0; o < OUT; o++) {
        const float want = expected(image, weights, bias, y, x, o);
        error = fmax(error, fabs((double)result[(y * SIDE + x) * OUT + o] - want));
        largest = fmax(largest, want);
      }
  return error / largest;
}

int main(void) {
  static float image[SIDE * SIDE * IN], weights[OUT * KERNEL * KERNEL * IN], bias[OUT], result[SIDE * SIDE * OUT];
  for (int i = 0; i < SIDE * SIDE * IN; i++) image[i] = sinf((float)i);
  for (int i = 0; i < OUT * KERNEL * KERNEL * IN; i++) weights[i] = cosf((float)i);
  for (int i = 0; i < OUT; i++) bias[i] = (float)i / OUT;

  /* Create the operator, which works for images of any size. */
  qn_conv2d_params params;
  qn_conv2d_params_init(&params);
  params.in_channels = IN;
  params.out_channels = OUT;
  params.kernel = (qn_hw){KERNEL, KERNEL};
  params.padding = (qn_padding){KERNEL / 2, KERNEL / 2, KERNEL / 2, KERNEL / 2};
  params.min = 0;   /* relu */
  qn_weights given; /* must stay unchanged until operator and plan are released; the bias is copied */
  qn_weights_init(&given);
  given.data = weights;
  qn_operator* convolution;
  check(qn_conv2d_create(&params, &given, bias, NULL, &convolution));

  /* Plan the operator for images of one size and for THREADS threads. Planning packs the weights. */
  const size_t shape[4] = {1, SIDE, SIDE, IN};
  qn_tensor input;
  check(qn_tensor_init(&input, QN_F32, 4, shape));
  qn_plan_options options;
  qn_plan_options_init(&options);
  options.tasks = THREADS;
  qn_plan* plan;
  check(qn_operator_plan(convolution, &input, 1, NULL, 0, &options, &plan));
  qn_operator_release(convolution); /* the plan keeps the operator alive */

  /* Run the plan. A program can do this as often as it likes. */
  atomic_size_t calls = 0;
  const qn_parallel parallel = {.context = &calls, .run = run_tasks, .threads = THREADS};
  const size_t size = (qn_plan_workspace_size(plan) + 63) / 64 * 64;
  void* workspace = size > 0 ? aligned_alloc(64, size) : NULL;
  const void* inputs[1] = {image};
  void* outputs[1] = {result};
  check(qn_plan_run(plan, inputs, outputs, workspace, size, &parallel));
  free(workspace);

  const double error = largest_error(image, weights, bias, result);
  printf("%s (algorithm %s), %zu calls for threads, largest error %.1e\n", qn_plan_kernel(plan),
         qn_algorithm_string(qn_plan_algorithm(plan)), (size_t)calls, error);
  qn_plan_release(plan);
  return !(error < 1e-4 && calls > 0);
}
