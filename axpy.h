/* Written by tcpx.
   `constants`: nothing, NULL; `workspace`: as many bytes as axpy_workspace says;
   both 64-byte aligned. Returns 0 when done, else nothing has been written.
*/
#ifndef TCPX_AXPY_H
#define TCPX_AXPY_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
size_t axpy_workspace(int64_t N);
int axpy(const float *x, const float *y, float *out, int64_t N, const void *constants, void *workspace);
#ifdef __cplusplus
}
#endif
#endif
