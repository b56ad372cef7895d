"""Size expressions and predicates as C expressions of type int64_t.

Every `min`, `max`, division and remainder becomes a named constant in the outermost block where it can be computed, so
what is left are short sums of products.
"""

from collections.abc import Sequence
from typing import Final

from tcpx.emit_c.printer.names import Names
from tcpx.emit_c.printer.scopes import Scope
from tcpx.payload.contexts import context_at
from tcpx.payload.diagnostics import Diagnostic, Kind, VerifyError
from tcpx.payload.sizes import (
    Atom,
    CeilDiv,
    Dim,
    Division,
    Extremum,
    FloorDiv,
    Max,
    Min,
    Mod,
    Size,
    Symbol,
    Var,
    lower_bound,
    to_text,
    variables,
)
from tcpx.payload.sizes.expressions import atoms
from tcpx.payload.sizes.predicates import Comparison, Predicate
from tcpx.payload.sizes.questions import NOTHING_KNOWN, KnownSymbols

SIZE_HELPERS: Final = {
    "tcpx_size_min": "static inline int64_t tcpx_size_min(int64_t a, int64_t b) { return a < b ? a : b; }",
    "tcpx_size_max": "static inline int64_t tcpx_size_max(int64_t a, int64_t b) { return a > b ? a : b; }",
    "tcpx_size_floordiv": (
        "static inline int64_t tcpx_size_floordiv(int64_t a, int64_t b) { return a / b - (a % b < 0); }"
        " /* b positive */"
    ),
    "tcpx_size_ceildiv": (
        "static inline int64_t tcpx_size_ceildiv(int64_t a, int64_t b) { return a / b + (a % b > 0); } /* b positive */"
    ),
    "tcpx_size_mod": (
        "static inline int64_t tcpx_size_mod(int64_t a, int64_t b) { return a % b < 0 ? a % b + b : a % b; }"
        " /* b positive */"
    ),
    "tcpx_size_grow": (
        "static inline int tcpx_size_grow(int64_t *bytes, int64_t n) {\n"
        "  return __builtin_mul_overflow(*bytes, n < 1 ? 1 : n, bytes);\n}"
    ),
}
"""Definitions in C, each emitted only where it is used."""

_HINTS: Final[dict[type[Atom], str]] = {Min: "size", Max: "size", FloorDiv: "index", CeilDiv: "count", Mod: "rest"}


class SizePrinter:
    """Prints the sizes of one function."""

    __slots__ = ("_names",)

    def __init__(self, names: Names) -> None:
        self._names = names

    def text(self, dim: Dim, scope: Scope) -> str:
        """A sum without parentheses around it: `4 * M + i`."""
        return str(dim) if isinstance(dim, int) else self._sum(dim, scope, _known_in(scope))

    def _sum(self, dim: Dim, scope: Scope, known: KnownSymbols) -> str:
        if isinstance(dim, int):
            return str(dim)
        terms = [(c, " * ".join(self._atom(a, scope, known) for a in monomial)) for monomial, c in dim.terms]
        lead = next((k for k, (c, _) in enumerate(terms) if c > 0), 0)
        terms.insert(0, terms.pop(lead))
        parts = [(c < 0, text if abs(c) == 1 else f"{abs(c)} * {text}") for c, text in terms]
        if dim.constant:
            constant = (dim.constant < 0, str(abs(dim.constant)))
            if parts[0][0] and dim.constant > 0:
                parts.insert(0, constant)
            else:
                parts.append(constant)
        (negative, first), *rest = parts
        return ("-" if negative else "") + first + "".join(f" {'-' if n else '+'} {t}" for n, t in rest)

    def factor(self, dim: Dim, scope: Scope) -> str:
        """As `text`, with parentheses where it could not be a factor without."""
        return self._factor(dim, scope, _known_in(scope))

    def _factor(self, dim: Dim, scope: Scope, known: KnownSymbols) -> str:
        text = self._sum(dim, scope, known)
        return text if text.replace("_", "a").isalnum() else f"({text})"

    def product(self, a: Dim, b: Dim, hint: str, scope: Scope) -> str:
        """a * b; a named constant if neither is a number."""
        if isinstance(a, int) and isinstance(b, int):
            return str(a * b)
        if isinstance(a, int) or isinstance(b, int):
            a, b = (a, b) if isinstance(b, int) else (b, a)
            return self.text(a, scope) if b == 1 else f"{self.factor(a, scope)} * {b}"
        known = _known_in(scope)
        key = _key(f"({to_text(a)}) * ({to_text(b)})", (*atoms(a), *atoms(b)), known)
        name = scope.lookup(key)
        if name is not None:
            return name
        home = self._home((a, b), scope)
        return self._constant(key, hint, f"{self._factor(a, home, known)} * {self._factor(b, home, known)}", home)

    def condition(self, predicate: Predicate, scope: Scope) -> str:
        """The comparisons that are not always true, joined by `&&`; `1` if none is left."""
        return " && ".join(self._comparison(c, scope) for c in predicate.simplify().comparisons) or "1"

    def is_positive(self, dims: Sequence[Dim], scope: Scope) -> str:
        """The condition that all sizes are positive, empty if that is known."""
        terms: dict[str, None] = {}
        known, pending = _known_in(scope), list(reversed(dims))
        while pending:
            dim = pending.pop()
            low = lower_bound(dim, known)
            if low is not None and low > 0:
                continue
            match dim:
                case Size(terms=(((Min() as least,), 1),), constant=0):
                    pending += reversed(least.args)
                case Size():
                    terms[f"{self.text(dim - dim.constant, scope)} > {-dim.constant}"] = None
                case _:
                    return "0"
        return " && ".join(terms)

    def _comparison(self, comparison: Comparison, scope: Scope) -> str:
        return f"{self.text(comparison.lhs, scope)} {comparison.op} {self.text(comparison.rhs, scope)}"

    def _atom(self, atom: Atom, scope: Scope, known: KnownSymbols) -> str:
        key = _key(atom.text, (atom,), known)
        name = scope.lookup(key)
        if name is not None:
            return name
        if isinstance(atom, Symbol | Var):
            raise _unknown(atom.text)
        home = self._home((atom.size(),), scope)
        stem = "_".join((*self._innermost(atom, home), _HINTS[type(atom)]))
        return self._constant(key, stem, self._call(atom, home, known), home)

    def _constant(self, key: str, hint: str, value: str, home: Scope) -> str:
        name = self._names.fresh(hint)
        home.declare(f"const int64_t {name} = {value};")
        home.names[key] = name
        return name

    def _home(self, dims: Sequence[Dim], scope: Scope) -> Scope:
        """Where to compute sizes that this block needs: as far out as their variables allow."""
        home = scope.home(dims)
        if home is None:
            raise _unknown(", ".join(to_text(d) for d in dims))
        return home

    def _innermost(self, atom: Atom, home: Scope) -> list[str]:
        names = [home.lookup(v.text) for v in variables(atom) if v.text in home.names]
        return [name for name in names if name is not None][-1:]

    def _call(self, atom: Atom, home: Scope, known: KnownSymbols) -> str:
        match atom:
            case Extremum():
                return self._nested(atom.word, atom.args, home, known)
            case Division():
                divisor = _divisor(atom.rhs)
                if isinstance(atom, FloorDiv | Mod) and _divides_plainly(atom, known):
                    sign = "/" if isinstance(atom, FloorDiv) else "%"
                    return f"{self._factor(atom.lhs, home, known)} {sign} {self._sum(divisor, home, known)}"
                return self._nested(atom.word, (atom.lhs, divisor), home, known)
            case _:
                raise _unknown(atom.text)

    def _nested(self, word: str, args: Sequence[Dim], home: Scope, known: KnownSymbols) -> str:
        texts = [self._sum(arg, home, known) for arg in args]
        text = texts.pop()
        while texts:
            text = f"tcpx_size_{word}({texts.pop()}, {text})"
        return text


def _known_in(scope: Scope) -> KnownSymbols:
    """What is known of symbols where the operation stands that is being printed."""
    return context_at(scope.op).names if scope.op is not None else NOTHING_KNOWN


def _divides_plainly(atom: Atom, known: KnownSymbols) -> bool:
    """Whether the operators of C, which round to zero, give what is wanted here.

    That may follow from the branch, while the constant is computed outside of it: elsewhere it is not to be used.
    """
    if not isinstance(atom, FloorDiv | Mod) or not isinstance(atom.rhs, int):
        return False
    low = lower_bound(atom.lhs, known)
    return low is not None and low >= 0


def _key(text: str, parts: Sequence[Atom], known: KnownSymbols) -> str:
    """By what a constant is found again: its text, and which of the divisions in it are those of C."""
    plain: dict[str, None] = {}
    pending = list(parts)
    while pending:
        atom = pending.pop()
        if _divides_plainly(atom, known):
            plain[atom.text] = None
        pending += [inner for operand in atom.operands for inner in atoms(operand)]
    return f"{text} by C: {', '.join(sorted(plain))}" if plain else text


def _divisor(dim: Dim) -> Dim:
    """What a size is divided by. Below 1 it counts as 1: what is only known to be positive in a branch or a loop may
    be computed outside of it."""
    return dim if isinstance(dim, int) else Max((1, dim)).size()


def _unknown(text: str) -> VerifyError:
    return VerifyError(
        Diagnostic(
            f"the size `{text}` is used where it has no value",
            kind=Kind.INTERNAL,
            required="symbols of the function and variables of enclosing loops",
            found=text,
        )
    )
