/* out_of_memory MODEL STEP [tune]: uses a model through the public interface while memory runs out, for good, at the
   first allocation, STEP allocations later, and so on: once with the allocator of the library's user, once with
   malloc's family, which this program replaces. Each time the answer must be QN_OUT_OF_MEMORY, and all memory must be
   back in the end. With "tune" a session measures (qn_tuning_*), which is all that it does, because it takes long. */
#include <quern/graph.h>
#ifdef WITH_TUNING
#include <quern/op.h>
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is left, and what lives, of whichever family counts. */
static long left, live;
static int counts_malloc;

static int may_allocate(void) {
  if (left == 0) return 0;
  --left;
  ++live;
  return 1;
}

/* Glibc's own names of what stands below. */
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* pointer, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* pointer);

void* malloc(size_t size) { return !counts_malloc || may_allocate() ? __libc_malloc(size) : NULL; }
void* calloc(size_t count, size_t size) { return !counts_malloc || may_allocate() ? __libc_calloc(count, size) : NULL; }
void* aligned_alloc(size_t alignment, size_t size) {
  return !counts_malloc || may_allocate() ? __libc_memalign(alignment, size) : NULL;
}
int posix_memalign(void** pointer, size_t alignment, size_t size) {
  *pointer = aligned_alloc(alignment, size);
  return *pointer == NULL ? ENOMEM : 0;
}
void* realloc(void* pointer, size_t size) {
  if (pointer == NULL) return malloc(size);
  return !counts_malloc || left != 0 ? __libc_realloc(pointer, size) : NULL;
}
void free(void* pointer) {
  if (pointer != NULL && counts_malloc) --live;
  __libc_free(pointer);
}

static void* allocate(void* context, size_t size, size_t alignment) {
  void* pointer;
  (void)context;
  if (!may_allocate()) return NULL;
  return posix_memalign(&pointer, alignment < sizeof(void*) ? sizeof(void*) : alignment, size) == 0 ? pointer : NULL;
}
static void release(void* context, void* pointer, size_t size) {
  (void)context, (void)size;
  --live;
  free(pointer);
}

#define TRY(call)                       \
  do {                                  \
    const qn_status failed = (call);    \
    if (failed != QN_OK) return failed; \
  } while (0)

/* Creates a session, runs it, and again at another size. */
static qn_status run(qn_model* model, const qn_session_options* options, qn_session** session, const float* input) {
  static const size_t larger[] = {1, 24, 24, 3};
  const void *inputs[] = {input}, *output;
  TRY(qn_session_create(model, options, session));
  TRY(qn_session_run(*session, inputs));
  TRY(qn_session_output(*session, 0, &output));
  TRY(qn_session_resize(*session, 0, 4, larger));
  return qn_session_run(*session, inputs);
}

/* Measures the choices for a session. */
static qn_status tune(qn_model* model, qn_session** session) {
#ifdef WITH_TUNING
  qn_session_options options;
  qn_tuning* tuning;
  TRY(qn_tuning_create(&tuning));
  qn_session_options_init(&options);
  options.tuning = tuning;
  options.tune = 1;
  const qn_status status = qn_session_create(model, &options, session);
  qn_tuning_release(tuning);
  return status;
#else
  return (void)model, (void)session, QN_UNSUPPORTED;
#endif
}

/* `image`, misaligned, so that it is copied. */
static qn_status use(const char* path, const char* image, size_t size, int tunes) {
  static const float input[24 * 24 * 3];
  qn_model *from_file = NULL, *from_memory = NULL;
  qn_session *first = NULL, *second = NULL;
  qn_session_options options;
  qn_session_options_init(&options);
  options.profile = 1;
  qn_status status = qn_model_load_file(path, NULL, &from_file);
  if (status == QN_OK) status = tunes ? tune(from_file, &first) : run(from_file, &options, &first, input);
  options.threads = 2;
  if (status == QN_OK) status = qn_model_load_memory(image, size, NULL, &from_memory);
  if (status == QN_OK && !tunes) status = run(from_memory, &options, &second, input);
  qn_session_release(second);
  qn_session_release(first);
  qn_model_release(from_memory);
  qn_model_release(from_file);
  return status;
}

static int check(const char* family, long step, const char* path, const char* image, size_t size, int tunes) {
  long points = 0, before;
  for (;; points += step) {
    before = live;
    left = points;
    const qn_status status = use(path, image, size, tunes);
    const long lost = live - before;
    left = -1;
    if (lost != 0) {
      fprintf(stderr, "%s fails at allocation %ld: %ld blocks are lost\n", family, points, lost);
      return 1;
    }
    if (status == QN_OK) break;
    if (status != QN_OUT_OF_MEMORY) {
      fprintf(stderr, "%s fails at allocation %ld: %s\n", family, points, qn_status_string(status));
      return 1;
    }
  }
  printf("%s: %ld points of failure, every %ld tried\n", family, points, step);
  return points < 100;
}

int main(int count, char** arguments) {
  if (count < 3) return 2;
  const long step = atol(arguments[2]);
  const int tunes = count > 3 && strcmp(arguments[3], "tune") == 0;
  FILE* file = fopen(arguments[1], "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) return 2;
  const size_t size = (size_t)ftell(file);
  rewind(file);
  char* image = malloc(size + 1);
  if (image == NULL || fread(image + 1, 1, size, file) != size) return 2;
  fclose(file);

  left = -1; /* once, so that what is kept for good is there */
  if (use(arguments[1], image + 1, size, tunes) != QN_OK) return 2;
  const qn_allocator allocator = {NULL, allocate, release, {NULL}};
  counts_malloc = 1;
  if (check("malloc", step, arguments[1], image + 1, size, tunes)) return 1;
  counts_malloc = 0;
  if (qn_set_allocator(&allocator) || check("qn_allocator", step, arguments[1], image + 1, size, tunes)) return 1;
  free(image);
  return 0;
}
