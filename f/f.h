/* Written by tcpx.
   `constants`: nothing, NULL; `workspace`: as many bytes as f_workspace says;
   both 64-byte aligned. Returns 0 when done, else nothing has been written.
*/
#ifndef TCPX_f_H
#define TCPX_f_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
size_t f_workspace(void);
int f(const uint16_t *p, const uint16_t *v, uint16_t *out_4, const void *constants, void *workspace);
#ifdef __cplusplus
}
#endif
#endif
