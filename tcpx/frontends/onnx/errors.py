"""What an import may end with, beside a module."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tcpx.payload.diagnostics import Diagnostic, Direction, Location, TcpxError, VerifyError
from tcpx.payload.sizes import Dim, as_symbol, symbols, to_text
from tcpx.payload.sizes.context import Context
from tcpx.payload.sizes.predicates import Predicate
from tcpx.records import frozen

_MOST_SHOWN: Final = 40


class OnnxError(TcpxError):
    """An ONNX file that cannot be read, or that breaks a rule of its operators. With numbers for `dims`, or for some of
    them, it may be none."""

    def __init__(self, diagnostic: Diagnostic, dims: Iterable[str] = ()) -> None:
        super().__init__(diagnostic)
        self.dims = tuple(dims)

    @classmethod
    def at(
        cls,
        place: Location | str,
        message: str,
        required: str,
        found: str,
        fix: str | None = None,
        sizes: Sequence[Dim] = (),
        equal: tuple[Dim, Dim] | None = None,
    ) -> "OnnxError":
        """An error at a node, or about a whole file, which may be none where `sizes` are numbers, or where two sizes
        are `equal`."""
        where = Location(place, 1, 1) if isinstance(place, str) else place
        if equal and dims_of(equal) and not Context([Predicate.of("==", *equal)]).is_possible:
            equal, fix = None, fix or Direction("correct the model: no sizes of a call make these equal")
        fix = fix or (equality_of(*equal) if equal else numbers_for(sizes))
        sizes = equal or sizes
        return cls(Diagnostic(message, payload=where, required=required, found=found, fix=fix), dims_of(sizes))


def dims_of(sizes: Iterable[Dim]) -> tuple[str, ...]:
    """The names of the dims that sizes depend on."""
    return tuple(sorted({symbol.name for size in sizes for symbol in symbols(size)}))


def numbers_for(sizes: Sequence[Dim]) -> str | None:
    """How numbers are given to the dims that sizes depend on; None where they are numbers."""
    return _said(dict.fromkeys(dims_of(sizes), "<number>"))


def one_for(sizes: Sequence[Dim]) -> str | None:
    """How sizes become 1: by numbers, where they are more than a dim each; None where one never does."""
    if any(isinstance(size, int) and size != 1 for size in sizes):
        return None
    names = [symbol.name for size in sizes if (symbol := as_symbol(size)) is not None]
    return _said(dict.fromkeys(names, "1")) if len(names) == len(sizes) else numbers_for(sizes)


def equality_of(a: Dim, b: Dim) -> str | None:
    """How two sizes become equal: a dim that number, or that other dim; else by numbers for what they depend on."""
    first, second = as_symbol(a), as_symbol(b)
    match a, b:
        case (_, int(number)) if first is not None:
            return _said({first.name: str(number)})
        case (int(number), _) if second is not None:
            return _said({second.name: str(number)})
        case _ if first is not None and second is not None:
            return _said({second.name: first.name})
        case _:
            return numbers_for([a, b])


def _said(values: Mapping[str, str]) -> str | None:
    python = ", ".join(f'"{n}": "{v}"' if v.isidentifier() else f'"{n}": {v}' for n, v in values.items())
    shell = " ".join(f"--size {name}={value}" for name, value in values.items())
    return f"sizes={{{python}}}, or {shell}" if values else None


def with_numbers(error: VerifyError, sizes: Sequence[Dim]) -> TcpxError:
    """What the payload refuses of a node, with how to give numbers to those of these dims that it names."""
    known = error.diagnostic
    named = {symbol.name: size for size in sizes if (symbol := as_symbol(size)) is not None}
    words = set(re.findall(r"\w+", f"{known.required} {known.found}"))
    free = [size for name, size in named.items() if name in words]
    return OnnxError(replace(known, fix=known.fix or numbers_for(free)), dims_of(free)) if free else error


@frozen
class Finding:
    """A node that no payload can state yet, and why."""

    node: str
    operator: str
    reason: str
    place: Location | None = None
    dims: tuple[str, ...] = ()
    """With numbers for them a payload could."""

    def __str__(self) -> str:
        return f"{self.operator} `{self.node}`: {self.reason}"


class UnsupportedError(OnnxError):
    """A model with nodes that are not supported: `findings` has all of them."""

    def __init__(self, diagnostic: Diagnostic, dims: Iterable[str] = (), findings: Sequence[Finding] = ()) -> None:
        super().__init__(diagnostic, dims)
        self.findings = tuple(findings)

    @classmethod
    def of(cls, file: str, findings: Sequence[Finding]) -> "UnsupportedError":
        """One error for all of them."""
        shown = tuple(str(finding) for finding in findings[:_MOST_SHOWN])
        rest = len(findings) - len(shown)
        return cls(
            Diagnostic(
                f"{file} has nodes that are not supported",
                payload=findings[0].place or Location(file, 1, 1),
                required="operators, dtypes and shapes that docs/onnx.md lists",
                found=f"{len(findings)} other node(s)",
                notes=(*shown, *([f"and {rest} more"] if rest else [])),
            ),
            dict.fromkeys(name for finding in findings for name in finding.dims),
            findings,
        )


class Unsupported(Exception):  # noqa: N818 - a rule says so of one node; the importer collects them
    """A node that a rule cannot state; the text says why. With numbers for the dims of `sizes` it could, or where two
    sizes were `equal`."""

    def __init__(self, reason: str, sizes: Sequence[Dim] = (), equal: tuple[Dim, Dim] | None = None) -> None:
        fix = equality_of(*equal) if equal else numbers_for(sizes)
        super().__init__(f"{reason}; say sizes: {fix}" if fix else reason)
        self.dims = dims_of(equal or sizes)


class NotConstant(Exception):  # noqa: N818 - the importer asks for the inputs, or lists the node
    """A value that has to be known when the model is imported, the node that needs it, and the inputs of the model that
    it depends on."""

    def __init__(self, what: str, sources: frozenset[str], node: str, operator: str, place: Location) -> None:
        super().__init__(what)
        self.sources = sources
        self.node, self.operator, self.place = node, operator, place


class BoundedSize(Exception):  # noqa: N818 - the importer begins again with what it learned
    """A size that is known to be no greater than a number: else each call would fail."""

    def __init__(self, size: Dim, most: int) -> None:
        super().__init__(f"{to_text(size)} is at most {most}")
        self.size, self.most = size, most


@frozen
class Equation:
    """Two sizes that a node needs to be equal."""

    a: Dim
    b: Dim
    node: str
    place: Location

    @property
    def message(self) -> str:
        """What is said of a call with other sizes."""
        return f"{self.node}: {to_text(self.a)} and {to_text(self.b)} have to be equal"


class OpenEquations(Exception):  # noqa: N818 - the importer begins again with what it learned
    """Sizes that have to be equal, which is not known of them."""

    def __init__(self, equations: Sequence[Equation]) -> None:
        super().__init__(", ".join(equation.message for equation in equations))
        self.equations = tuple(equations)
