/* Classifies a picture: loads a model, scales the pixels to the range that the model wants, and runs the model.
 *
 *     classify MODEL.qn PICTURE [CLASS]
 *
 * PICTURE is a binary PGM (gray) or PPM (colours) without comments. It must have the size that the model takes. CLASS
 * is the number of the right class: with it, the exit status is 1 if the model finds another class. */
#include <quern/quern.h>
#include <stdio.h>
#include <stdlib.h>

static void* fail(const char* what, const char* why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static void check(qn_status status) {
  if (status != QN_OK) fail(qn_status_string(status), qn_last_message());
}

/* Reads a picture, which must have this size. Returns its bytes row by row, `channels` for each pixel. */
static unsigned char* read_picture(const char* path, size_t height, size_t width, size_t channels) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) fail(path, "cannot be opened");
  char kind = 0;
  size_t rows = 0, columns = 0;
  if (fscanf(file, "P%c %zu %zu 255", &kind, &columns, &rows) != 3 || fgetc(file) == EOF ||
      kind != (channels == 1 ? '5' : '6') || rows != height || columns != width)
    fail(path, "not a picture as the model takes it");
  const size_t size = height * width * channels;
  unsigned char* pixels = malloc(size);
  if (pixels == NULL || fread(pixels, 1, size, file) != size) fail(path, "cannot be read");
  fclose(file);
  return pixels;
}

/* Makes the model's input from a picture: one channel after the other, as in ONNX and Caffe. Subtracts a mean from each
 * pixel and scales the difference. */
static float* make_input(const qn_model* model, const char* path) {
  qn_port port;
  qn_port_init(&port);
  check(qn_model_input(model, 0, &port));
  qn_preprocessing wanted;
  qn_preprocessing_init(&wanted);
  check(qn_model_preprocessing(model, 0, &wanted));

  const size_t* shape = port.tensor.shape;
  if (port.tensor.type != QN_F32 || port.tensor.rank != 4 || shape[0] != 1 || (shape[1] != 1 && shape[1] != 3) ||
      !wanted.present)
    fail(port.name, "not an input for one picture");
  const size_t channels = shape[1], pixels = shape[2] * shape[3];
  unsigned char* bytes = read_picture(path, shape[2], shape[3], channels);
  float* input = malloc(channels * pixels * sizeof *input);
  if (input == NULL) fail(path, "out of memory");
  for (size_t c = 0; c < channels; c++) {
    const size_t from = wanted.bgr ? channels - 1 - c : c;
    for (size_t i = 0; i < pixels; i++)
      input[c * pixels + i] = ((float)bytes[i * channels + from] - wanted.mean[c]) * wanted.scale[c];
  }
  free(bytes);
  return input;
}

int main(int argc, char** argv) {
  if (argc < 3) fail("usage", "classify MODEL.qn PICTURE [CLASS]");
  qn_model* model;
  check(qn_model_load_file(argv[1], NULL, &model));
  qn_session* session;
  check(qn_session_create(model, NULL, &session)); /* NULL: one thread, the fastest algorithms */

  float* input = make_input(model, argv[2]);
  qn_model_release(model); /* the session keeps the model alive */
  const void* inputs[1] = {input};
  check(qn_session_run(session, inputs));
  free(input);

  qn_tensor tensor;
  check(qn_session_output_tensor(session, 0, &tensor));
  if (tensor.type != QN_F32) fail(argv[1], "not a model whose output is floats");
  const void* output;
  check(qn_session_output(session, 0, &output)); /* valid until the session's next run */
  const float* scores = output;
  size_t best = 0;
  for (size_t i = 1; i < qn_tensor_bytes(&tensor) / sizeof *scores; i++)
    if (scores[i] > scores[best]) best = i;
  printf("class %zu, %.2f%%\n", best, 100 * (double)scores[best]);
  qn_session_release(session);
  return argc > 3 && strtoul(argv[3], NULL, 10) != best;
}
