"""Words of C11, its library and the pragmas we print that an emitted identifier may not be.

A kernel called `memcpy` would be called by the compiler's own copies; a variable called `expf` would hide the function
that an instruction template calls. Names that begin with an underscore or with `tcpx_` are kept free as a whole.
"""

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

RESERVED: Final[frozenset[str]] = frozenset(
    (
        *_KEYWORDS.split(),
        *_PRAGMAS.split(),
        *_TYPES_AND_MACROS.split(),
        *_FUNCTIONS.split(),
        *(name + suffix for name in _MATH.split() for suffix in ("", "f", "l", "_r", "f_r", "l_r")),
    )
)
"""Every word of the lists above, the functions of math.h for all three float types."""
