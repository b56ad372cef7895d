"""Sizes as C, for a program that calls a kernel."""

from collections.abc import Mapping
from typing import Final

from tcpx.payload.diagnostics import Diagnostic, VerifyError
from tcpx.payload.sizes import Atom, Dim, Division, Extremum, Symbol, lower_bound

SIZE_FUNCTIONS: Final = """\
static inline int64_t tcpx_size_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tcpx_size_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t tcpx_size_floordiv(int64_t a, int64_t b) { return a / b - (a % b < 0); } /* b positive */
static inline int64_t tcpx_size_ceildiv(int64_t a, int64_t b) { return a / b + (a % b > 0); } /* b positive */
static inline int64_t tcpx_size_mod(int64_t a, int64_t b) { return a % b < 0 ? a % b + b : a % b; } /* b positive */"""

MAGNITUDE_FUNCTIONS: Final = """\
static inline double tcpx_magnitude_min(double a, double b) { return a < b ? a : b; }
static inline double tcpx_magnitude_max(double a, double b) { return a > b ? a : b; }
static inline double tcpx_magnitude_floordiv(double a, double b) { return a / b; }
static inline double tcpx_magnitude_ceildiv(double a, double b) { return a / b + 1; }
static inline double tcpx_magnitude_mod(double a, double b) { (void)a; return b; }"""
"""Bounds of the same in floating point, where int64_t may not hold them."""


def c_size(dim: Dim, symbols: Mapping[str, str], prefix: str = "tcpx_size") -> str:
    """A size as a C expression; `symbols` gives the variable of each symbol, `prefix` chooses the functions."""
    if isinstance(dim, int):
        return str(dim)
    terms = [" * ".join([str(c), *(_atom(a, symbols, prefix) for a in atoms)]) for atoms, c in dim.terms]
    terms = [term.removeprefix("1 * ") for term in terms]
    text = " + ".join([*terms, *([str(dim.constant)] if dim.constant else [])])
    return text if text.isidentifier() else f"({text})"


def _atom(atom: Atom, symbols: Mapping[str, str], prefix: str) -> str:
    def text(dim: Dim) -> str:
        return c_size(dim, symbols, prefix)

    match atom:
        case Symbol(name=name):
            return symbols[name]
        case Division(lhs=lhs, rhs=rhs):
            low = lower_bound(rhs)
            divisor = text(rhs) if low is not None and low >= 1 else f"{prefix}_max(1, {text(rhs)})"
            return f"{prefix}_{atom.word}({text(lhs)}, {divisor})"
        case Extremum(args=(first, *rest)):
            made = text(first)
            for arg in rest:
                made = f"{prefix}_{atom.word}({made}, {text(arg)})"
            return made
        case _:
            raise VerifyError(
                Diagnostic(
                    f"the size `{atom.text}` of a kernel is not known when it is called",
                    required="sizes over the symbols of the function",
                    found=atom.text,
                )
            )
