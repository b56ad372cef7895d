/* Runs row on arrays from .npy files, without Python. Written by tcpx.
     main [-o FOLDER] [--repeat TIMES] x=FILE.npy w=FILE.npy */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "row.h"

/* The kernel, whatever variables are called. */
static __typeof__(row) *const tcpx_run = row;

#ifndef TCPX_CONSTANTS
#define TCPX_CONSTANTS "row.bin"
#endif

typedef struct {
  const char *name, *type; /* as the payload has them */
  const char *descr;       /* NumPy's word for the dtype */
  size_t width;            /* bytes of an element */
  int rank;
  int64_t shape[2];
  const char *stem; /* of the file that it is written to */
  const char *file;
  void *data;
} tcpx_Array;

static void tcpx_stop(const char *what, const char *why) {
  fprintf(stderr, "row: %s: %s\n", what, why);
  exit(1);
}

/* 64-byte aligned. */
static void *tcpx_allocate(size_t bytes) {
  void *made = aligned_alloc(64, bytes / 64 * 64 + 64);
  if (made == NULL) tcpx_stop("memory", "there is not enough");
  return made;
}

/* The bytes of an array with its extents. */
static size_t tcpx_bytes_of(const tcpx_Array *array) {
  size_t bytes = array->width;
  for (int k = 0; k < array->rank; k++)
    if (__builtin_mul_overflow(bytes, (size_t)array->shape[k], &bytes))
      tcpx_stop(array->name, "the array is too large");
  return bytes;
}

static inline void tcpx_wrong_shape(const tcpx_Array *array) {
  fprintf(stderr, "row: %s: required %s, found", array->file, array->type);
  for (int k = 0; k < array->rank; k++) fprintf(stderr, "%s%lld", k ? " x " : " ", (long long)array->shape[k]);
  fprintf(stderr, "\n");
  exit(1);
}

/* Whether a header says this dtype. Bytes without a meaning, as which NumPy saves bf16, have no order. */
static int tcpx_has_dtype(const char *header, const char *descr) {
  const char *found = strstr(header, "'descr': '");
  if (found == NULL) return 0;
  found += 10;
  return (*found == *descr || (*found == '|' && descr[1] == 'V')) &&
         strncmp(found + 1, descr + 1, strlen(descr) - 1) == 0 && found[strlen(descr)] == 39; /* a quote */
}

static void tcpx_read_array(tcpx_Array *array) {
  unsigned char head[12];
  int rank = 0;
  FILE *file = fopen(array->file, "rb");
  if (file == NULL) tcpx_stop(array->file, strerror(errno));
  if (fread(head, 1, 10, file) != 10 || memcmp(head, "\x93NUMPY", 6) != 0)
    tcpx_stop(array->file, "this is no .npy file");
  size_t length = head[8] | (size_t)head[9] << 8;
  if (head[6] > 1) {
    if (fread(head + 10, 1, 2, file) != 2) tcpx_stop(array->file, "the file is cut short");
    length |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
  }
  char *text = tcpx_allocate(length + 1);
  if (fread(text, 1, length, file) != length) tcpx_stop(array->file, "the file is cut short");
  do text[length] = 0; /* spaces and a newline fill it up */
  while (length > 0 && strchr(" \n", text[--length]) != NULL);
  if (!tcpx_has_dtype(text, array->descr)) {
    fprintf(stderr, "row: %s: required 'descr': '%s', found %s\n", array->file, array->descr, text);
    exit(1);
  }
  if (strstr(text, "'fortran_order': False") == NULL) tcpx_stop(array->file, "required an array in row-major order");
  const char *place = strstr(text, "'shape': (");
  for (place = place ? place + 10 : ")"; *place && *place != ')';) {
    char *end;
    const long long extent = strtoll(place, &end, 10);
    if (end != place) {
      if (rank < array->rank) array->shape[rank] = extent;
      if (extent < 0 || extent > INT64_C(140737488355328)) tcpx_stop(array->file, "an extent is out of range");
      rank++;
    }
    place = end != place ? end : place + 1;
  }
  if (rank != array->rank) {
    fprintf(stderr, "row: %s: required %s, found an array of %d dim%s\n", array->file, array->type, rank,
            rank == 1 ? "" : "s");
    exit(1);
  }
  const size_t bytes = tcpx_bytes_of(array);
  array->data = tcpx_allocate(bytes);
  if (fread(array->data, 1, bytes, file) != bytes) tcpx_stop(array->file, "the file is cut short");
  fclose(file);
  free(text);
}

static void tcpx_write_array(const tcpx_Array *array, const char *folder) {
  char path[4096], shape[1024] = "", text[2048];
  size_t used = 0;
  for (int k = 0; k < array->rank; k++)
    used += (size_t)snprintf(shape + used, sizeof shape - used, "%lld, ", (long long)array->shape[k]);
  snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", array->descr, shape);
  const size_t length = (strlen(text) + 11 + 63) / 64 * 64 - 10;
  snprintf(path, sizeof path, "%s/%s.npy", folder, array->stem);
  FILE *file = fopen(path, "wb");
  if (file == NULL) tcpx_stop(path, strerror(errno));
  fwrite("\x93NUMPY\x01", 1, 8, file);
  fputc((int)(length & 255), file);
  fputc((int)(length >> 8), file);
  fprintf(file, "%-*s\n", (int)length - 1, text);
  const size_t bytes = tcpx_bytes_of(array);
  if (fwrite(array->data, 1, bytes, file) != bytes || fclose(file) != 0) tcpx_stop(path, strerror(errno));
  printf("wrote %s: %s\n", path, array->type);
}

/* Whether an argument is `name=..`. */
static int tcpx_is_for(const char *argument, const char *name) {
  return strncmp(argument, name, strlen(name)) == 0 && argument[strlen(name)] == '=';
}

static inline int64_t tcpx_size_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tcpx_size_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t tcpx_size_floordiv(int64_t a, int64_t b) { return a / b - (a % b < 0); } /* b positive */
static inline int64_t tcpx_size_ceildiv(int64_t a, int64_t b) { return a / b + (a % b > 0); } /* b positive */
static inline int64_t tcpx_size_mod(int64_t a, int64_t b) { return a % b < 0 ? a % b + b : a % b; } /* b positive */
static inline double tcpx_magnitude_min(double a, double b) { return a < b ? a : b; }
static inline double tcpx_magnitude_max(double a, double b) { return a > b ? a : b; }
static inline double tcpx_magnitude_floordiv(double a, double b) { return a / b; }
static inline double tcpx_magnitude_ceildiv(double a, double b) { return a / b + 1; }
static inline double tcpx_magnitude_mod(double a, double b) { (void)a; return b; }

int main(int argc, char **argv) {
  const char *folder = ".";
  long repeat = 1;
  tcpx_Array inputs[] = {{"x", "tensor<[N]x[2*K]xf32>", "<f4", 4, 2, {0}, NULL, NULL, NULL},
    {"w", "tensor<[2*K]x8xf32>", "<f4", 4, 2, {0}, NULL, NULL, NULL}};
  tcpx_Array outputs[] = {{"out", "tensor<[N]x8xf32>", "<f4", 4, 2, {0}, "out", NULL, NULL}};
  for (int k = 1; k < argc; k++) {
    int known = 0;
    const char *value = strchr(argv[k], '=');
    if (strcmp(argv[k], "-o") == 0 && k + 1 < argc) {
      folder = argv[++k];
      continue;
    }
    if (strcmp(argv[k], "--repeat") == 0 && k + 1 < argc) {
      repeat = strtol(argv[++k], NULL, 10);
      if (repeat < 1) tcpx_stop("--repeat", "required a number from 1 on");
      continue;
    }
    for (int n = 0; value && n < 2; n++)
      if (tcpx_is_for(argv[k], inputs[n].name)) {
        inputs[n].file = value + 1;
        known = 1;
      }
    if (!known) {
      fprintf(stderr, "row: unknown argument %s\nusage: main [-o FOLDER] [--repeat TIMES] x=FILE.npy w=FILE.npy\n", argv[k]);
      return 2;
    }
  }
  for (int n = 0; n < 2; n++) {
    if (inputs[n].file == NULL)
      tcpx_stop(inputs[n].name, "no file is given for it; usage: main [-o FOLDER] x=FILE.npy w=FILE.npy");
    tcpx_read_array(&inputs[n]);
  }
  const int64_t N = inputs[0].shape[0];
  const int64_t K = (inputs[0].shape[1] - 0) / 2;
  if (N < 1) tcpx_wrong_shape(&inputs[0]);
  if (N > 64) tcpx_wrong_shape(&inputs[0]);
  if (K < 4) tcpx_wrong_shape(&inputs[0]);
  if (K > 64) tcpx_wrong_shape(&inputs[0]);
  if (K % 4 != 0) tcpx_wrong_shape(&inputs[0]);
  if (inputs[0].shape[1] != (2 * K)) tcpx_wrong_shape(&inputs[0]);
  if (inputs[1].shape[0] != (2 * K)) tcpx_wrong_shape(&inputs[1]);
  if (inputs[1].shape[1] != 8) tcpx_wrong_shape(&inputs[1]);
  outputs[0].shape[0] = N;
  outputs[0].shape[1] = 8;
  for (int n = 0; n < 1; n++) outputs[n].data = tcpx_allocate(tcpx_bytes_of(&outputs[n]));
  double best = 1e300;
  int code = 0;
  for (long k = 0; k < repeat && code == 0; k++) {
    struct timespec begin, end;
    timespec_get(&begin, TIME_UTC);
    code = tcpx_run(inputs[0].data, inputs[1].data, outputs[0].data, N, K, NULL, NULL);
    timespec_get(&end, TIME_UTC);
    const double seconds = (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    if (seconds < best) best = seconds;
  }
  if (code != 0) {
    static const char *const texts[] = {"done", "a size is out of its range", "a size in bytes overflows"};
    tcpx_stop("the kernel wrote nothing", texts[code < 3 ? code : 0]);
  }
  printf("%.1f us, the least of %ld\n", 1e6 * best, repeat);
  tcpx_write_array(&outputs[0], folder);
  for (int n = 0; n < 2; n++) free(inputs[n].data);
  for (int n = 0; n < 1; n++) free(outputs[n].data);
  return 0;
}
