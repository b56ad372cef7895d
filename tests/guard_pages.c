/* Calls a function; if it ends with a signal, returns to the caller with that. */
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>

enum { SIGNALS = 5 };
static const int signals[SIGNALS] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
static sigjmp_buf place;

static void leave(int number) { siglongjmp(place, number); }

#define FOUR(n) a[n], a[n + 1], a[n + 2], a[n + 3]
#define SIXTEEN(n) FOUR(n), FOUR(n + 4), FOUR(n + 8), FOUR(n + 12)
#define SIXTY_FOUR(n) SIXTEEN(n), SIXTEEN(n + 16), SIXTEEN(n + 32), SIXTEEN(n + 48)
typedef int function();

/* All arguments are pointers and integers of 64 bits: `a` has 256 of them, and those behind the last are ignored. */
int guarded_call(function *f, const int64_t *a) {
  struct sigaction action = {.sa_handler = leave}, before[SIGNALS];
  for (int k = 0; k < SIGNALS; k++) sigaction(signals[k], &action, &before[k]);
  const int number = sigsetjmp(place, 1);
  const int code = number ? -number : f(SIXTY_FOUR(0), SIXTY_FOUR(64), SIXTY_FOUR(128), SIXTY_FOUR(192));
  for (int k = 0; k < SIGNALS; k++) sigaction(signals[k], &before[k], 0);
  return code;
}
