/* Written by tcpx for the target generic. */
/* Before 11.4 and 12.3, gcc vectorizes some loops so that they read behind an array (its bug 107451). */
#if defined(__GNUC__) && !defined(__clang__)
#if (__GNUC__ == 11 && __GNUC_MINOR__ < 4) || (__GNUC__ == 12 && __GNUC_MINOR__ < 3)
#pragma GCC optimize("no-tree-loop-vectorize")
#endif
#endif
#include <stddef.h>
#include <stdint.h>
#include <math.h>

static inline uint32_t tcpx_bits(float a) {
  uint32_t bits;
  __builtin_memcpy(&bits, &a, sizeof bits);
  return bits;
}

static inline float tcpx_float(uint32_t bits) {
  float a;
  __builtin_memcpy(&a, &bits, sizeof a);
  return a;
}

static inline float tcpx_bf16_to_f32(uint16_t a) { return tcpx_float((uint32_t)a << 16); }

static inline uint16_t tcpx_f32_to_bf16(float a) { /* nearest even; a NaN stays one */
  uint32_t bits = tcpx_bits(a);
  return (uint16_t)(a != a ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Bytes of workspace; 1 thread(s). */
size_t f_workspace(void) {
  return (size_t)(0);
}

/* @f, for generic, 1 thread(s).
   in  %p: tensor<2x8x8xbf16>
   in  %v: tensor<2x8x16xbf16>
   out %out.4: tensor<2x8x16xbf16>
   Constants and workspace are 64-byte aligned.
   Returns 0: done, 1: a size is out of its range, 2: a size in bytes overflows. */
int f(
    const uint16_t *restrict p,
    const uint16_t *restrict v,
    uint16_t *restrict out_4,
    const void *restrict constants,
    void *restrict workspace) {
  (void)constants;
  (void)workspace;
  /* o/h1, parallel (gemm.tcps:123) */
  for (int64_t o_h1 = 0; o_h1 < 2; o_h1++) {
    const float c = 0.0f;
    /* o/e1, once (gemm.tcps:262) */
    {
      /* o/u1, once (gemm.tcps:262) */
      {
        _Alignas(64) float o_rhs_buf[128];
        /* o.rhs/pack1 (gemm.tcps:199) */
        for (int64_t o_rhs_pack1 = 0; o_rhs_pack1 < 16; o_rhs_pack1 += 8) {
          const int64_t o_rhs_pack1_index = o_rhs_pack1 / 8;
          /* o.rhs.wide/d01, once (gemm.tcps:171) */
          {
            /* o.rhs.wide/d11 (gemm.tcps:171) */
            for (int64_t o_rhs_wide_d11 = 0; o_rhs_wide_d11 < 8; o_rhs_wide_d11++) {
              /* o.rhs.wide/d21 (gemm.tcps:171) */
              for (int64_t o_rhs_wide_d21 = 0; o_rhs_wide_d21 < 8; o_rhs_wide_d21 += 4) {
                const uint16_t v_v_0_0_0 = *(v + o_h1 * 128 + o_rhs_wide_d11 * 16 + o_rhs_wide_d21 + o_rhs_pack1);
                const float o_rhs_wide_v_0_0_0 = tcpx_bf16_to_f32(v_v_0_0_0);
                const uint16_t v_v_0_0_1 = *(v + o_h1 * 128 + o_rhs_wide_d11 * 16 + o_rhs_wide_d21 + o_rhs_pack1 + 1);
                const float o_rhs_wide_v_0_0_1 = tcpx_bf16_to_f32(v_v_0_0_1);
                const uint16_t v_v_0_0_2 = *(v + o_h1 * 128 + o_rhs_wide_d11 * 16 + o_rhs_wide_d21 + o_rhs_pack1 + 2);
                const float o_rhs_wide_v_0_0_2 = tcpx_bf16_to_f32(v_v_0_0_2);
                const uint16_t v_v_0_0_3 = *(v + o_h1 * 128 + o_rhs_wide_d11 * 16 + o_rhs_wide_d21 + o_rhs_pack1 + 3);
                const float o_rhs_wide_v_0_0_3 = tcpx_bf16_to_f32(v_v_0_0_3);
                *(o_rhs_buf + o_rhs_pack1_index * 64 + o_rhs_wide_d11 * 8 + o_rhs_wide_d21) = o_rhs_wide_v_0_0_0;
                *(o_rhs_buf + o_rhs_pack1_index * 64 + o_rhs_wide_d11 * 8 + o_rhs_wide_d21 + 1) = o_rhs_wide_v_0_0_1;
                *(o_rhs_buf + o_rhs_pack1_index * 64 + o_rhs_wide_d11 * 8 + o_rhs_wide_d21 + 2) = o_rhs_wide_v_0_0_2;
                *(o_rhs_buf + o_rhs_pack1_index * 64 + o_rhs_wide_d11 * 8 + o_rhs_wide_d21 + 3) = o_rhs_wide_v_0_0_3;
              }
            }
          }
        }
        /* o/t1, once (gemm.tcps:265) */
        {
          _Alignas(64) float o_lhs_buf[64];
          /* o.lhs/pack1 (gemm.tcps:185) */
          for (int64_t o_lhs_pack1 = 0; o_lhs_pack1 < 8; o_lhs_pack1 += 4) {
            const int64_t o_lhs_pack1_index = o_lhs_pack1 / 4;
            /* o.lhs.wide/d01, once (gemm.tcps:171) */
            {
              /* o.lhs.wide/d11 (gemm.tcps:171) */
              for (int64_t o_lhs_wide_d11 = 0; o_lhs_wide_d11 < 4; o_lhs_wide_d11++) {
                /* o.lhs.wide/d21 (gemm.tcps:171) */
                for (int64_t o_lhs_wide_d21 = 0; o_lhs_wide_d21 < 8; o_lhs_wide_d21 += 4) {
                  const uint16_t p_v_0_0_0 = *(p + o_h1 * 64 + (o_lhs_wide_d11 + o_lhs_pack1) * 8 + o_lhs_wide_d21);
                  const float o_lhs_wide_v_0_0_0 = tcpx_bf16_to_f32(p_v_0_0_0);
                  const uint16_t p_v_0_0_1 = *(p + o_h1 * 64 + (o_lhs_wide_d11 + o_lhs_pack1) * 8 + o_lhs_wide_d21 + 1);
                  const float o_lhs_wide_v_0_0_1 = tcpx_bf16_to_f32(p_v_0_0_1);
                  const uint16_t p_v_0_0_2 = *(p + o_h1 * 64 + (o_lhs_wide_d11 + o_lhs_pack1) * 8 + o_lhs_wide_d21 + 2);
                  const float o_lhs_wide_v_0_0_2 = tcpx_bf16_to_f32(p_v_0_0_2);
                  const uint16_t p_v_0_0_3 = *(p + o_h1 * 64 + (o_lhs_wide_d11 + o_lhs_pack1) * 8 + o_lhs_wide_d21 + 3);
                  const float o_lhs_wide_v_0_0_3 = tcpx_bf16_to_f32(p_v_0_0_3);
                  *(o_lhs_buf + o_lhs_pack1_index * 32 + o_lhs_wide_d11 * 8 + o_lhs_wide_d21) = o_lhs_wide_v_0_0_0;
                  *(o_lhs_buf + o_lhs_pack1_index * 32 + o_lhs_wide_d11 * 8 + o_lhs_wide_d21 + 1) = o_lhs_wide_v_0_0_1;
                  *(o_lhs_buf + o_lhs_pack1_index * 32 + o_lhs_wide_d11 * 8 + o_lhs_wide_d21 + 2) = o_lhs_wide_v_0_0_2;
                  *(o_lhs_buf + o_lhs_pack1_index * 32 + o_lhs_wide_d11 * 8 + o_lhs_wide_d21 + 3) = o_lhs_wide_v_0_0_3;
                }
              }
            }
          }
          /* o/e2 (gemm.tcps:266) */
          for (int64_t o_e2 = 0; o_e2 < 16; o_e2 += 8) {
            const int64_t o_e2_index = o_e2 / 8;
            /* o/t2 (gemm.tcps:266) */
            for (int64_t o_t2 = 0; o_t2 < 8; o_t2 += 4) {
              /* prefetch, one access per cache line */
              for (int64_t row = 0; row < 4; row++) {
                /* of each row */
                for (int64_t line = 0; line < 8; line += 32) {
                  __builtin_prefetch(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + row * 16 + line, 1, 3);
                }
              }
              float o_20_0_0_0 = c;
              float o_20_0_0_1 = c;
              float o_20_0_0_2 = c;
              float o_20_0_0_3 = c;
              float o_20_0_0_4 = c;
              float o_20_0_0_5 = c;
              float o_20_0_0_6 = c;
              float o_20_0_0_7 = c;
              float o_20_0_1_0 = c;
              float o_20_0_1_1 = c;
              float o_20_0_1_2 = c;
              float o_20_0_1_3 = c;
              float o_20_0_1_4 = c;
              float o_20_0_1_5 = c;
              float o_20_0_1_6 = c;
              float o_20_0_1_7 = c;
              float o_20_0_2_0 = c;
              float o_20_0_2_1 = c;
              float o_20_0_2_2 = c;
              float o_20_0_2_3 = c;
              float o_20_0_2_4 = c;
              float o_20_0_2_5 = c;
              float o_20_0_2_6 = c;
              float o_20_0_2_7 = c;
              float o_20_0_3_0 = c;
              float o_20_0_3_1 = c;
              float o_20_0_3_2 = c;
              float o_20_0_3_3 = c;
              float o_20_0_3_4 = c;
              float o_20_0_3_5 = c;
              float o_20_0_3_6 = c;
              float o_20_0_3_7 = c;
              const int64_t o_t2_index = o_t2 / 4;
              /* o/u2 (gemm.tcps:222) */
              #pragma GCC unroll 4
              for (int64_t o_u2 = 0; o_u2 < 8; o_u2++) {
                const float o_v_0_0_0 = *(o_lhs_buf + o_t2_index * 32 + o_u2);
                const float o_v_1_0_0_0 = *(o_rhs_buf + o_e2_index * 64 + o_u2 * 8);
                const float o_v_3_0_0_0_p = o_v_0_0_0 * o_v_1_0_0_0;
                o_20_0_0_0 = o_20_0_0_0 + o_v_3_0_0_0_p;
                const float o_v_1_0_0_1 = *(o_rhs_buf + o_e2_index * 64 + o_u2 * 8 + 1);
                const float o_v_3_0_0_1_p = o_v_0_0_0 * o_v_1_0_0_1;
                o_20_0_0_1 = o_20_0_0_1 + o_v_3_0_0_1_p;
                const float o_v_1_0_0_2 = *(o_rhs_buf + o_e2_index * 64 + o_u2 * 8 + 2);
                const float o_v_3_0_0_2_p = o_v_0_0_0 * o_v_1_0_0_2;
                o_20_0_0_2 = o_20_0_0_2 + o_v_3_0_0_2_p;
                const float o_v_1_0_0_3 = *(o_rhs_buf + o_e2_index * 64 + o_u2 * 8 + 3);
                const float o_v_3_0_0_3_p = o_v_0_0_0 * o_v_1_0_0_3;
                o_20_0_0_3 = o_20_0_0_3 + o_v_3_0_0_3_p;
                const float o_v_1_0_0_4 = *(o_rhs_buf + o_e2_index * 64 + o_u2 * 8 + 4);
                const float o_v_3_0_0_4_p = o_v_0_0_0 * o_v_1_0_0_4;
                o_20_0_0_4 = o_20_0_0_4 + o_v_3_0_0_4_p;
                const float o_v_1_0_0_5 = *(o_rhs_buf + o_e2_index * 64 + o_u2 * 8 + 5);
                const float o_v_3_0_0_5_p = o_v_0_0_0 * o_v_1_0_0_5;
                o_20_0_0_5 = o_20_0_0_5 + o_v_3_0_0_5_p;
                const float o_v_1_0_0_6 = *(o_rhs_buf + o_e2_index * 64 + o_u2 * 8 + 6);
                const float o_v_3_0_0_6_p = o_v_0_0_0 * o_v_1_0_0_6;
                o_20_0_0_6 = o_20_0_0_6 + o_v_3_0_0_6_p;
                const float o_v_1_0_0_7 = *(o_rhs_buf + o_e2_index * 64 + o_u2 * 8 + 7);
                const float o_v_3_0_0_7_p = o_v_0_0_0 * o_v_1_0_0_7;
                o_20_0_0_7 = o_20_0_0_7 + o_v_3_0_0_7_p;
                const float o_v_0_1_0 = *(o_lhs_buf + o_t2_index * 32 + o_u2 + 8);
                const float o_v_3_0_1_0_p = o_v_0_1_0 * o_v_1_0_0_0;
                o_20_0_1_0 = o_20_0_1_0 + o_v_3_0_1_0_p;
                const float o_v_3_0_1_1_p = o_v_0_1_0 * o_v_1_0_0_1;
                o_20_0_1_1 = o_20_0_1_1 + o_v_3_0_1_1_p;
                const float o_v_3_0_1_2_p = o_v_0_1_0 * o_v_1_0_0_2;
                o_20_0_1_2 = o_20_0_1_2 + o_v_3_0_1_2_p;
                const float o_v_3_0_1_3_p = o_v_0_1_0 * o_v_1_0_0_3;
                o_20_0_1_3 = o_20_0_1_3 + o_v_3_0_1_3_p;
                const float o_v_3_0_1_4_p = o_v_0_1_0 * o_v_1_0_0_4;
                o_20_0_1_4 = o_20_0_1_4 + o_v_3_0_1_4_p;
                const float o_v_3_0_1_5_p = o_v_0_1_0 * o_v_1_0_0_5;
                o_20_0_1_5 = o_20_0_1_5 + o_v_3_0_1_5_p;
                const float o_v_3_0_1_6_p = o_v_0_1_0 * o_v_1_0_0_6;
                o_20_0_1_6 = o_20_0_1_6 + o_v_3_0_1_6_p;
                const float o_v_3_0_1_7_p = o_v_0_1_0 * o_v_1_0_0_7;
                o_20_0_1_7 = o_20_0_1_7 + o_v_3_0_1_7_p;
                const float o_v_0_2_0 = *(o_lhs_buf + o_t2_index * 32 + o_u2 + 16);
                const float o_v_3_0_2_0_p = o_v_0_2_0 * o_v_1_0_0_0;
                o_20_0_2_0 = o_20_0_2_0 + o_v_3_0_2_0_p;
                const float o_v_3_0_2_1_p = o_v_0_2_0 * o_v_1_0_0_1;
                o_20_0_2_1 = o_20_0_2_1 + o_v_3_0_2_1_p;
                const float o_v_3_0_2_2_p = o_v_0_2_0 * o_v_1_0_0_2;
                o_20_0_2_2 = o_20_0_2_2 + o_v_3_0_2_2_p;
                const float o_v_3_0_2_3_p = o_v_0_2_0 * o_v_1_0_0_3;
                o_20_0_2_3 = o_20_0_2_3 + o_v_3_0_2_3_p;
                const float o_v_3_0_2_4_p = o_v_0_2_0 * o_v_1_0_0_4;
                o_20_0_2_4 = o_20_0_2_4 + o_v_3_0_2_4_p;
                const float o_v_3_0_2_5_p = o_v_0_2_0 * o_v_1_0_0_5;
                o_20_0_2_5 = o_20_0_2_5 + o_v_3_0_2_5_p;
                const float o_v_3_0_2_6_p = o_v_0_2_0 * o_v_1_0_0_6;
                o_20_0_2_6 = o_20_0_2_6 + o_v_3_0_2_6_p;
                const float o_v_3_0_2_7_p = o_v_0_2_0 * o_v_1_0_0_7;
                o_20_0_2_7 = o_20_0_2_7 + o_v_3_0_2_7_p;
                const float o_v_0_3_0 = *(o_lhs_buf + o_t2_index * 32 + o_u2 + 24);
                const float o_v_3_0_3_0_p = o_v_0_3_0 * o_v_1_0_0_0;
                o_20_0_3_0 = o_20_0_3_0 + o_v_3_0_3_0_p;
                const float o_v_3_0_3_1_p = o_v_0_3_0 * o_v_1_0_0_1;
                o_20_0_3_1 = o_20_0_3_1 + o_v_3_0_3_1_p;
                const float o_v_3_0_3_2_p = o_v_0_3_0 * o_v_1_0_0_2;
                o_20_0_3_2 = o_20_0_3_2 + o_v_3_0_3_2_p;
                const float o_v_3_0_3_3_p = o_v_0_3_0 * o_v_1_0_0_3;
                o_20_0_3_3 = o_20_0_3_3 + o_v_3_0_3_3_p;
                const float o_v_3_0_3_4_p = o_v_0_3_0 * o_v_1_0_0_4;
                o_20_0_3_4 = o_20_0_3_4 + o_v_3_0_3_4_p;
                const float o_v_3_0_3_5_p = o_v_0_3_0 * o_v_1_0_0_5;
                o_20_0_3_5 = o_20_0_3_5 + o_v_3_0_3_5_p;
                const float o_v_3_0_3_6_p = o_v_0_3_0 * o_v_1_0_0_6;
                o_20_0_3_6 = o_20_0_3_6 + o_v_3_0_3_6_p;
                const float o_v_3_0_3_7_p = o_v_0_3_0 * o_v_1_0_0_7;
                o_20_0_3_7 = o_20_0_3_7 + o_v_3_0_3_7_p;
              }
              const uint16_t y_v_0_0_0 = tcpx_f32_to_bf16(o_20_0_0_0);
              const uint16_t y_v_0_0_1 = tcpx_f32_to_bf16(o_20_0_0_1);
              const uint16_t y_v_0_0_2 = tcpx_f32_to_bf16(o_20_0_0_2);
              const uint16_t y_v_0_0_3 = tcpx_f32_to_bf16(o_20_0_0_3);
              const uint16_t y_v_0_0_4 = tcpx_f32_to_bf16(o_20_0_0_4);
              const uint16_t y_v_0_0_5 = tcpx_f32_to_bf16(o_20_0_0_5);
              const uint16_t y_v_0_0_6 = tcpx_f32_to_bf16(o_20_0_0_6);
              const uint16_t y_v_0_0_7 = tcpx_f32_to_bf16(o_20_0_0_7);
              const uint16_t y_v_0_1_0 = tcpx_f32_to_bf16(o_20_0_1_0);
              const uint16_t y_v_0_1_1 = tcpx_f32_to_bf16(o_20_0_1_1);
              const uint16_t y_v_0_1_2 = tcpx_f32_to_bf16(o_20_0_1_2);
              const uint16_t y_v_0_1_3 = tcpx_f32_to_bf16(o_20_0_1_3);
              const uint16_t y_v_0_1_4 = tcpx_f32_to_bf16(o_20_0_1_4);
              const uint16_t y_v_0_1_5 = tcpx_f32_to_bf16(o_20_0_1_5);
              const uint16_t y_v_0_1_6 = tcpx_f32_to_bf16(o_20_0_1_6);
              const uint16_t y_v_0_1_7 = tcpx_f32_to_bf16(o_20_0_1_7);
              const uint16_t y_v_0_2_0 = tcpx_f32_to_bf16(o_20_0_2_0);
              const uint16_t y_v_0_2_1 = tcpx_f32_to_bf16(o_20_0_2_1);
              const uint16_t y_v_0_2_2 = tcpx_f32_to_bf16(o_20_0_2_2);
              const uint16_t y_v_0_2_3 = tcpx_f32_to_bf16(o_20_0_2_3);
              const uint16_t y_v_0_2_4 = tcpx_f32_to_bf16(o_20_0_2_4);
              const uint16_t y_v_0_2_5 = tcpx_f32_to_bf16(o_20_0_2_5);
              const uint16_t y_v_0_2_6 = tcpx_f32_to_bf16(o_20_0_2_6);
              const uint16_t y_v_0_2_7 = tcpx_f32_to_bf16(o_20_0_2_7);
              const uint16_t y_v_0_3_0 = tcpx_f32_to_bf16(o_20_0_3_0);
              const uint16_t y_v_0_3_1 = tcpx_f32_to_bf16(o_20_0_3_1);
              const uint16_t y_v_0_3_2 = tcpx_f32_to_bf16(o_20_0_3_2);
              const uint16_t y_v_0_3_3 = tcpx_f32_to_bf16(o_20_0_3_3);
              const uint16_t y_v_0_3_4 = tcpx_f32_to_bf16(o_20_0_3_4);
              const uint16_t y_v_0_3_5 = tcpx_f32_to_bf16(o_20_0_3_5);
              const uint16_t y_v_0_3_6 = tcpx_f32_to_bf16(o_20_0_3_6);
              const uint16_t y_v_0_3_7 = tcpx_f32_to_bf16(o_20_0_3_7);
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2) = y_v_0_0_0;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 1) = y_v_0_0_1;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 2) = y_v_0_0_2;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 3) = y_v_0_0_3;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 4) = y_v_0_0_4;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 5) = y_v_0_0_5;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 6) = y_v_0_0_6;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 7) = y_v_0_0_7;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 16) = y_v_0_1_0;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 17) = y_v_0_1_1;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 18) = y_v_0_1_2;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 19) = y_v_0_1_3;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 20) = y_v_0_1_4;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 21) = y_v_0_1_5;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 22) = y_v_0_1_6;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 23) = y_v_0_1_7;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 32) = y_v_0_2_0;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 33) = y_v_0_2_1;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 34) = y_v_0_2_2;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 35) = y_v_0_2_3;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 36) = y_v_0_2_4;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 37) = y_v_0_2_5;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 38) = y_v_0_2_6;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 39) = y_v_0_2_7;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 48) = y_v_0_3_0;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 49) = y_v_0_3_1;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 50) = y_v_0_3_2;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 51) = y_v_0_3_3;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 52) = y_v_0_3_4;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 53) = y_v_0_3_5;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 54) = y_v_0_3_6;
              *(out_4 + o_h1 * 128 + o_t2 * 16 + o_e2 + 55) = y_v_0_3_7;
            }
          }
        }
      }
    }
  }
  return 0;
}
