/* Written by tcpx for the target sapphire_rapids. */
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <immintrin.h>

static inline uint64_t tcpx_lane_mask(int64_t n) { /* the low n bits, none for n < 0 */
  return _bzhi_u64(~UINT64_C(0), (uint32_t)(n < 0 ? 0 : n > 64 ? 64 : n));
}

static inline int64_t tcpx_size_min(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int tcpx_size_grow(int64_t *bytes, int64_t n) {
  return __builtin_mul_overflow(*bytes, n < 1 ? 1 : n, bytes);
}

static int squares_check(int64_t M, int64_t N) {
  if (M < 0) return 1;
  if (M > INT64_C(140737488355328)) return 2;
  if (N < 0) return 1;
  if (N > INT64_C(140737488355328)) return 2;
  {
    int64_t bytes = 4;
    if (tcpx_size_grow(&bytes, M) || tcpx_size_grow(&bytes, N)) return 2;
  }
  {
    int64_t bytes = 4;
    if (tcpx_size_grow(&bytes, M)) return 2;
  }
  return 0;
}

/* Bytes of workspace; 1 thread(s); SIZE_MAX for sizes out of range. */
size_t squares_workspace(int64_t M, int64_t N) {
  if (squares_check(M, N) != 0) return SIZE_MAX;
  return (size_t)(0);
}

/* @squares, for sapphire_rapids, 1 thread(s).
   in  %x: tensor<[M]x[N]xf32>
   out %out: tensor<[M]xf32>
   size M: 0..
   size N: 0..
   Constants and workspace are 64-byte aligned.
   Returns 0: done, 1: a size is out of its range, 2: a size in bytes overflows. */
int squares(
    const float *restrict x,
    float *restrict out,
    int64_t M,
    int64_t N,
    const void *restrict constants,
    void *restrict workspace) {
  const int status = squares_check(M, N);
  if (status != 0) return status;
  (void)constants;
  (void)workspace;
  const float c = 0.0f;
  const __m512 c_1_s = _mm512_set1_ps(c);
  /* y/i1 (default.tcps:70) */
  for (int64_t y_i1 = 0; y_i1 < M; y_i1++) {
    __m512 y_5_0 = c_1_s;
    const int64_t x_row = y_i1 * N;
    /* y/j1 (default.tcps:70) */
    for (int64_t y_j1 = 0; y_j1 < N; y_j1 += 16) {
      const int64_t y_j1_size = tcpx_size_min(16, N - y_j1);
      const __m512 x_v_0_0 = _mm512_maskz_loadu_ps((__mmask16)tcpx_lane_mask(y_j1_size), x + x_row + y_j1);
      const __m512 y_v_1_0 = _mm512_fmadd_ps(x_v_0_0, x_v_0_0, y_5_0);
      const __mmask16 mask = (__mmask16)tcpx_lane_mask(y_j1_size);
      y_5_0 = _mm512_mask_blend_ps(mask, y_5_0, y_v_1_0);
    }
    const float y_v_1_0_2 = _mm512_mask_reduce_add_ps(0xffff, (y_5_0));
    const float y_v_1_0_6 = c + y_v_1_0_2;
    *(out + y_i1) = y_v_1_0_6;
  }
  return 0;
}
