/* Written by tcpx for the target mine. */
#include <stddef.h>
#include <stdint.h>
#include <math.h>

static inline int64_t tcpx_size_min(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t tcpx_size_ceildiv(int64_t a, int64_t b) { return a / b + (a % b > 0); } /* b positive */

static inline int tcpx_size_grow(int64_t *bytes, int64_t n) {
  return __builtin_mul_overflow(*bytes, n < 1 ? 1 : n, bytes);
}

static int axpy_check(int64_t N) {
  if (N < 0 || N > 4096) return 1;
  {
    int64_t bytes = 4;
    if (tcpx_size_grow(&bytes, N) || tcpx_size_grow(&bytes, 8)) return 2;
  }
  return 0;
}

/* Bytes of workspace; 1 thread(s); SIZE_MAX for sizes out of range. */
size_t axpy_workspace(int64_t N) {
  if (axpy_check(N) != 0) return SIZE_MAX;
  const int64_t count = tcpx_size_ceildiv(N, 128);
  return (size_t)(4096 * count + 64);
}

/* @axpy, for mine, 1 thread(s).
   in  %x: tensor<[N]x8xf32>
   in  %y: tensor<[N]x8xf32>
   out %out: tensor<[N]x8xf32>
   size N: 0..4096
   Constants and workspace are 64-byte aligned.
   Returns 0: done, 1: a size is out of its range, 2: a size in bytes overflows. */
int axpy(
    const float *restrict x,
    const float *restrict y,
    float *restrict out,
    int64_t N,
    const void *restrict constants,
    void *restrict workspace) {
  const int status = axpy_check(N);
  if (status != 0) return status;
  (void)constants;
  float *const r_buf = __builtin_assume_aligned((char *)workspace, 64); /* [N]x8xf32 */
  /* r/d0 */
  for (int64_t r_d0 = 0; r_d0 < N; r_d0++) {
    /* r/d1 */
    for (int64_t r_d1 = 0; r_d1 < 8; r_d1++) {
      const float r_1 = *(x + r_d0 * 8 + r_d1);
      const float r_2 = *(y + r_d0 * 8 + r_d1);
      const float r = r_1 * r_2;
      *(r_buf + r_d0 * 8 + r_d1) = r;
    }
  }
  /* s/d01 (rows.tcps:4) */
  for (int64_t s_d01 = 0; s_d01 < N; s_d01 += 4) {
    const int64_t s_d01_size = tcpx_size_min(4, N - s_d01);
    for (int64_t i = 0; i < 8 * (s_d01_size); i++) (out + s_d01 * 8)[i] = (r_buf + s_d01 * 8)[i] + (y + s_d01 * 8)[i];
  }
  return 0;
}
