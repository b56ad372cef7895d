"""Words of C11, its library and the pragmas we print that an emitted identifier may not be.

A kernel called `memcpy` would be called by the compiler's own copies; a variable called `expf` would hide the function
that an instruction template calls. Names that begin with an underscore or with `tcpx_` are kept free as a whole.
"""

import re
from typing import Final

_KEYWORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
asm typeof fortran near far and and_eq bitand bitor compl not not_eq or or_eq xor xor_eq
alignas alignof bool complex false imaginary noreturn static_assert thread_local true nullptr constexpr
catch class delete explicit export friend mutable namespace new operator private protected public template this throw
try typeid typename using virtual wchar_t char8_t char16_t char32_t
"""

_PRAGMAS = """
pragma GCC unroll omp parallel collapse num_threads schedule firstprivate
"""

_TYPES_AND_MACROS = """
size_t ptrdiff_t max_align_t offsetof NULL
int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t intptr_t uintptr_t intmax_t uintmax_t
INT8_C INT16_C INT32_C INT64_C UINT8_C UINT16_C UINT32_C UINT64_C INTMAX_C UINTMAX_C
INT8_MIN INT16_MIN INT32_MIN INT64_MIN INT8_MAX INT16_MAX INT32_MAX INT64_MAX
UINT8_MAX UINT16_MAX UINT32_MAX UINT64_MAX INTPTR_MIN INTPTR_MAX UINTPTR_MAX INTMAX_MIN INTMAX_MAX UINTMAX_MAX
PTRDIFF_MIN PTRDIFF_MAX SIG_ATOMIC_MIN SIG_ATOMIC_MAX SIZE_MAX WCHAR_MIN WCHAR_MAX WINT_MIN WINT_MAX
float_t double_t HUGE_VAL HUGE_VALF HUGE_VALL INFINITY NAN FP_INFINITE FP_NAN FP_NORMAL FP_SUBNORMAL FP_ZERO
FP_ILOGB0 FP_ILOGBNAN FP_FAST_FMA FP_FAST_FMAF FP_FAST_FMAL MATH_ERRNO MATH_ERREXCEPT math_errhandling
fpclassify isfinite isinf isnan isnormal signbit isgreater isgreaterequal isless islessequal islessgreater isunordered
I NDEBUG EOF BUFSIZ CHAR_BIT assert errno setjmp stdin stdout stderr va_arg va_copy va_end va_start main
linux unix i386 arm environ
"""

_MACROS_BEYOND_C11 = """
BIG_ENDIAN BYTE_ORDER LITTLE_ENDIAN PDP_ENDIAN CLOCKS_PER_SEC CLOCK_BOOTTIME CLOCK_BOOTTIME_ALARM CLOCK_MONOTONIC
CLOCK_MONOTONIC_COARSE CLOCK_MONOTONIC_RAW CLOCK_PROCESS_CPUTIME_ID CLOCK_REALTIME CLOCK_REALTIME_ALARM
CLOCK_REALTIME_COARSE CLOCK_TAI CLOCK_THREAD_CPUTIME_ID EXIT_FAILURE EXIT_SUCCESS FD_CLR FD_ISSET FD_SET FD_SETSIZE
FD_ZERO FILENAME_MAX FOPEN_MAX L_ctermid L_tmpnam MB_CUR_MAX NFDBITS P_tmpdir RAND_MAX SEEK_CUR SEEK_END SEEK_SET
TIMER_ABSTIME TIME_UTC TMP_MAX WCONTINUED WEXITED WEXITSTATUS WIFCONTINUED WIFEXITED WIFSIGNALED WIFSTOPPED WNOHANG
WNOWAIT WSTOPPED WSTOPSIG WTERMSIG WUNTRACED be16toh be32toh be64toh htobe16 htobe32 htobe64 htole16 htole32 htole64
le16toh le32toh le64toh FILE
"""

_MATH = """
acos acosh asin asinh atan atan2 atanh cabs cacos cacosh carg casin casinh catan catanh cbrt ccos ccosh ceil cexp cimag
clog conj copysign cos cosh cpow cproj creal csin csinh csqrt ctan ctanh erf erfc exp exp10 exp2 expm1 fabs fdim floor
fma fmax fmin fmod frexp gamma hypot ilogb j0 j1 jn ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround
modf nan nearbyint nextafter nexttoward pow pow10 remainder remquo rint round scalb scalbln scalbn significand sin
sincos sinh sqrt tan tanh tgamma trunc y0 y1 yn drem finite
"""

_FUNCTIONS = """
abort abs aligned_alloc alloca asctime at_quick_exit atexit atof atoi atol atoll bcmp bcopy bsearch btowc bzero calloc
clearerr clock ctime difftime div exit fclose feclearexcept fegetenv fegetexceptflag fegetround feholdexcept feof
feraiseexcept ferror fesetenv fesetexceptflag fesetround fetestexcept feupdateenv fflush ffs ffsl ffsll fgetc fgetpos
fgets fgetwc fgetws fopen fork fprintf fputc fputs fputwc fputws fread free freopen fscanf fseek fsetpos ftell fwide
fwprintf fwrite fwscanf getc getchar getenv getwc getwchar gmtime imaxabs imaxdiv index isalnum isalpha isascii isblank
iscntrl isdigit isgraph islower isprint ispunct isspace isupper isxdigit labs ldiv llabs lldiv localeconv localtime
longjmp malloc mblen mbrlen mbrtowc mbsinit mbsrtowcs mbstowcs mbtowc memccpy memchr memcmp memcpy memmove mempcpy
memset mktime perror printf putc putchar puts putwc putwchar qsort quick_exit raise rand realloc remove rename rewind
rindex scanf setbuf setlocale setvbuf signal snprintf sprintf srand sscanf stpcpy stpncpy strcasecmp strcat strchr
strcmp strcoll strcpy strcspn strdup strerror strfmon strftime strlen strncasecmp strncat strncmp strncpy strndup
strpbrk strrchr strspn strstr strtod strtof strtoimax strtok strtol strtold strtoll strtoul strtoull strtoumax strxfrm
swprintf swscanf system time timespec_get tmpfile tmpnam toascii tolower toupper towctrans towlower towupper ungetc
ungetwc vfprintf vfscanf vfwprintf vfwscanf vfork vprintf vscanf vsnprintf vsprintf vsscanf vswprintf vswscanf vwprintf
vwscanf wcrtomb wcscat wcschr wcscmp wcscoll wcscpy wcscspn wcsftime wcslen wcsncat wcsncmp wcsncpy wcspbrk wcsrchr
wcsrtombs wcsspn wcsstr wcstod wcstof wcstoimax wcstok wcstol wcstold wcstoll wcstombs wcstoul wcstoull wcstoumax
wcsxfrm wctob wctomb wctrans wctype wmemchr wmemcmp wmemcpy wmemmove wmemset wprintf wscanf
memrchr memmem rawmemchr memfrob explicit_bzero strtok_r strsep strsignal strnlen strlcpy strlcat strchrnul strcasestr
strverscmp strfry strdupa strndupa basename strerror_r strerror_l strcoll_l strxfrm_l strcasecmp_l strncasecmp_l
sigabbrev_np sigdescr_np strerrorname_np strerrordesc_np
execl execle execlp execv execve execvp omp_get_thread_num
"""

_OF_POSIX = """
a64l arc4random arc4random_buf arc4random_uniform asctime_r caddr_t clearenv clearerr_unlocked clock_getcpuclockid
clock_getres clock_gettime clock_nanosleep clock_settime ctermid ctime_r daylight dprintf drand48 drand48_r dysize ecvt
ecvt_r erand48 erand48_r fcvt fcvt_r fd_mask fd_set fdopen feof_unlocked ferror_unlocked fflush_unlocked fgetc_unlocked
fileno fileno_unlocked flockfile fmemopen fputc_unlocked fread_unlocked fseeko ftello ftrylockfile funlockfile
fwrite_unlocked gcvt getc_unlocked getchar_unlocked getdelim getline getloadavg getsubopt getw gmtime_r initstate
initstate_r jrand48 jrand48_r l64a lcong48 lcong48_r localtime_r lrand48 lrand48_r mkdtemp mkstemp mkstemps mktemp
mrand48 mrand48_r nanosleep nrand48 nrand48_r on_exit open_memstream pclose popen posix_memalign pselect putc_unlocked
putchar_unlocked putenv putw qecvt qecvt_r qfcvt qfcvt_r qgcvt rand_r random random_r realpath reallocarray renameat
rpmatch seed48 seed48_r select setbuffer setenv setlinebuf setstate setstate_r srand48 srand48_r srandom srandom_r
strftime_l strtoq strtouq tempnam timegm timelocal timer_create timer_delete timer_getoverrun timer_gettime
timer_settime timezone tmpnam_r tzname tzset u_char u_int u_long u_short uint ulong unsetenv ushort va_list valloc
vdprintf accept bind brk chdir close connect dup dup2 getopt getpid kill listen lseek mmap munmap open pause pipe poll
read recv sbrk send sleep socket stat sync truncate unlink usleep wait waitpid write
blkcnt_t blksize_t clock_t clockid_t daddr_t dev_t div_t fpos_t fsblkcnt_t fsfilcnt_t fsid_t gid_t id_t ino_t key_t
ldiv_t lldiv_t locale_t loff_t mode_t nlink_t off_t pid_t quad_t register_t sigset_t ssize_t suseconds_t time_t timer_t
u_quad_t uid_t
"""

RESERVED: Final[frozenset[str]] = frozenset(
    (
        *_KEYWORDS.split(),
        *_PRAGMAS.split(),
        *_TYPES_AND_MACROS.split(),
        *_MACROS_BEYOND_C11.split(),
        *_FUNCTIONS.split(),
        *(name + suffix for name in _MATH.split() for suffix in ("", "f", "l", "_r", "f_r", "l_r")),
    )
)
"""Every word of the lists above, the functions of math.h for all three float types."""

EXTERNAL: Final[frozenset[str]] = frozenset(_OF_POSIX.split())
"""Functions and types of POSIX and of glibc: fine for a variable, not for a kernel."""
_OF_ERRNO: Final = re.compile(r"E[0-9A-Z]\w*|U?INT(_LEAST|_FAST)\d+_M(IN|AX)")
"""What macros of errno.h and stdint.h are called, by C11 7.31."""
_OF_LIBRARIES: Final = re.compile(r"(omp|pthread)_\w+|u?int_(least|fast)\d+_t|u_int\d+_t")


def is_reserved(word: str) -> bool:
    """Whether a word is not free for what stands in a file, or in a program that calls a kernel: macros count, and what
    begins with `tcpx_`."""
    return word in RESERVED or word.lower().startswith("tcpx_") or _OF_ERRNO.fullmatch(word) is not None


def is_external(word: str) -> bool:
    """Whether a library of the system may have a function or type of this name, which a kernel would take the place
    of."""
    return word in EXTERNAL or _OF_LIBRARIES.fullmatch(word) is not None
