/* Written by tcpx for the target generic. */
#include <stddef.h>
#include <stdint.h>
#include <math.h>

typedef float f32x4 __attribute__((vector_size(16)));

typedef uint32_t ui32x4 __attribute__((vector_size(16)));

static inline f32x4 tcpx_splat_f32x4(float x) { return x - (f32x4){0}; } /* minus 0 keeps -0.0; gcc makes a loop slow */

static inline f32x4 tcpx_load_f32x4(const float *p) {
  f32x4 v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

static inline void tcpx_store_f32x4(float *p, f32x4 v) { __builtin_memcpy(p, &v, sizeof v); }

static inline f32x4 tcpx_max_number_f32x4(f32x4 a, f32x4 b) { /* a is not NaN */
  ui32x4 m = (ui32x4)(a > b);
  return (f32x4)(((ui32x4)a & m) | ((ui32x4)b & ~m));
}

static inline int64_t tcpx_size_min(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t tcpx_size_max(int64_t a, int64_t b) { return a > b ? a : b; }

static inline int tcpx_size_grow(int64_t *bytes, int64_t n) {
  return __builtin_mul_overflow(*bytes, n < 1 ? 1 : n, bytes);
}

static int row_check(int64_t N, int64_t K) {
  if (N < 1 || N > 64) return 1;
  if (K < 4 || K > 64 || K % 4 != 0) return 1;
  {
    int64_t bytes = 4;
    if (tcpx_size_grow(&bytes, N) || tcpx_size_grow(&bytes, 2 * K)) return 2;
  }
  {
    int64_t bytes = 4;
    if (tcpx_size_grow(&bytes, 2 * K) || tcpx_size_grow(&bytes, 8)) return 2;
  }
  {
    int64_t bytes = 4;
    if (tcpx_size_grow(&bytes, N) || tcpx_size_grow(&bytes, 8)) return 2;
  }
  return 0;
}

/* Bytes of workspace; 1 thread(s); SIZE_MAX for sizes out of range. */
size_t row_workspace(int64_t N, int64_t K) {
  if (row_check(N, K) != 0) return SIZE_MAX;
  return (size_t)(0);
}

/* @row, for generic, 1 thread(s).
   in  %x: tensor<[N]x[2*K]xf32>
   in  %w: tensor<[2*K]x8xf32>
   out %out: tensor<[N]x8xf32>
   size N: 1..64
   size K: 4..64, a multiple of 4
   Constants and workspace are 64-byte aligned.
   Returns 0: done, 1: a size is out of its range, 2: a size in bytes overflows. */
int row(
    const float *restrict x,
    const float *restrict w,
    float *restrict out,
    int64_t N,
    int64_t K,
    const void *restrict constants,
    void *restrict workspace) {
  const int status = row_check(N, K);
  if (status != 0) return status;
  (void)constants;
  (void)workspace;
  /* y/n1, parallel, once (small_gemm.tcps:21) */
  {
    /* y/m1, parallel, once (small_gemm.tcps:21) */
    {
      const float c = 0.0f;
      const f32x4 c_s = tcpx_splat_f32x4(c);
      /* y/m2 (small_gemm.tcps:22) */
      for (int64_t y_m2 = 0; y_m2 < N; y_m2 += 4) {
        const int64_t x_row = y_m2 * (2 * K);
        const int64_t y_m2_size = tcpx_size_min(4, N - y_m2);
        const int64_t y_m2_size_2 = tcpx_size_min(1, y_m2_size - 1);
        const int64_t x_row_2 = (y_m2 + y_m2_size_2) * (2 * K);
        const int64_t y_m2_size_3 = tcpx_size_min(2, y_m2_size - 1);
        const int64_t x_row_3 = (y_m2 + y_m2_size_3) * (2 * K);
        const int64_t x_row_4 = (y_m2 + y_m2_size - 1) * (2 * K);
        const int64_t y_m2_size_4 = tcpx_size_max(0, N - y_m2 - 2);
        const int64_t y_m2_size_5 = tcpx_size_max(0, N - y_m2 - 3);
        /* y/n2, once (small_gemm.tcps:22) */
        {
          f32x4 y_15_0_0 = c_s;
          f32x4 y_15_0_1 = c_s;
          f32x4 y_15_1_0 = c_s;
          f32x4 y_15_1_1 = c_s;
          f32x4 y_15_2_0 = c_s;
          f32x4 y_15_2_1 = c_s;
          f32x4 y_15_3_0 = c_s;
          f32x4 y_15_3_1 = c_s;
          /* y/k1 (small_gemm.tcps:26) */
          #pragma GCC unroll 4
          for (int64_t y_k1 = 0; y_k1 < 2 * K; y_k1++) {
            const float x_v_0_0 = *(x + x_row + y_k1);
            const f32x4 x_v_0_0_s = tcpx_splat_f32x4(x_v_0_0);
            const f32x4 w_v_0_0 = tcpx_load_f32x4(w + y_k1 * 8);
            const f32x4 y_v_1_0_0_p = x_v_0_0_s * w_v_0_0;
            y_15_0_0 = y_15_0_0 + y_v_1_0_0_p;
            const f32x4 w_v_0_4 = tcpx_load_f32x4(w + y_k1 * 8 + 4);
            const f32x4 y_v_1_0_1_p = x_v_0_0_s * w_v_0_4;
            y_15_0_1 = y_15_0_1 + y_v_1_0_1_p;
            const float x_v_1_0 = *(x + x_row_2 + y_k1);
            const f32x4 x_v_1_0_s = tcpx_splat_f32x4(x_v_1_0);
            const f32x4 y_v_1_1_0_p = x_v_1_0_s * w_v_0_0;
            y_15_1_0 = y_15_1_0 + y_v_1_1_0_p;
            const f32x4 y_v_1_1_1_p = x_v_1_0_s * w_v_0_4;
            y_15_1_1 = y_15_1_1 + y_v_1_1_1_p;
            const float x_v_2_0 = *(x + x_row_3 + y_k1);
            const f32x4 x_v_2_0_s = tcpx_splat_f32x4(x_v_2_0);
            const f32x4 y_v_1_2_0_p = x_v_2_0_s * w_v_0_0;
            y_15_2_0 = y_15_2_0 + y_v_1_2_0_p;
            const f32x4 y_v_1_2_1_p = x_v_2_0_s * w_v_0_4;
            y_15_2_1 = y_15_2_1 + y_v_1_2_1_p;
            const float x_v_3_0 = *(x + x_row_4 + y_k1);
            const f32x4 x_v_3_0_s = tcpx_splat_f32x4(x_v_3_0);
            const f32x4 y_v_1_3_0_p = x_v_3_0_s * w_v_0_0;
            y_15_3_0 = y_15_3_0 + y_v_1_3_0_p;
            const f32x4 y_v_1_3_1_p = x_v_3_0_s * w_v_0_4;
            y_15_3_1 = y_15_3_1 + y_v_1_3_1_p;
          }
          const f32x4 z_v_0_0_3 = tcpx_max_number_f32x4(c_s, y_15_0_0);
          const f32x4 z_v_0_1_3 = tcpx_max_number_f32x4(c_s, y_15_0_1);
          const f32x4 z_v_1_0_3 = tcpx_max_number_f32x4(c_s, y_15_1_0);
          const f32x4 z_v_1_1_3 = tcpx_max_number_f32x4(c_s, y_15_1_1);
          const f32x4 z_v_2_0_3 = tcpx_max_number_f32x4(c_s, y_15_2_0);
          const f32x4 z_v_2_1_3 = tcpx_max_number_f32x4(c_s, y_15_2_1);
          const f32x4 z_v_3_0_3 = tcpx_max_number_f32x4(c_s, y_15_3_0);
          const f32x4 z_v_3_1_3 = tcpx_max_number_f32x4(c_s, y_15_3_1);
          tcpx_store_f32x4(out + y_m2 * 8, z_v_0_0_3);
          tcpx_store_f32x4(out + y_m2 * 8 + 4, z_v_0_1_3);
          if (N - y_m2 > 1) {
            tcpx_store_f32x4(out + y_m2 * 8 + 8, z_v_1_0_3);
            tcpx_store_f32x4(out + y_m2 * 8 + 12, z_v_1_1_3);
          }
          if (y_m2_size_4 > 0) {
            tcpx_store_f32x4(out + y_m2 * 8 + 16, z_v_2_0_3);
            tcpx_store_f32x4(out + y_m2 * 8 + 20, z_v_2_1_3);
          }
          if (y_m2_size_5 > 0) {
            tcpx_store_f32x4(out + y_m2 * 8 + 24, z_v_3_0_3);
            tcpx_store_f32x4(out + y_m2 * 8 + 28, z_v_3_1_3);
          }
        }
      }
    }
  }
  return 0;
}
