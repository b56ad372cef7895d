/* Written by tcpx.
   `constants`: nothing, NULL; `workspace`: as many bytes as squares_workspace says;
   both 64-byte aligned. Returns 0 when done, else nothing has been written.
*/
#ifndef TCPX_squares_H
#define TCPX_squares_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
size_t squares_workspace(int64_t M, int64_t N);
int squares(const float *x, float *out, int64_t M, int64_t N, const void *constants, void *workspace);
#ifdef __cplusplus
}
#endif
#endif
