/* Written by tcpx.
   `constants`: nothing, NULL; `workspace`: as many bytes as row_workspace says;
   both 64-byte aligned. Returns 0 when done, else nothing has been written.
*/
#ifndef TCPX_row_H
#define TCPX_row_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
size_t row_workspace(int64_t N, int64_t K);
int row(const float *x, const float *w, float *out, int64_t N, int64_t K, const void *constants, void *workspace);
#ifdef __cplusplus
}
#endif
#endif
