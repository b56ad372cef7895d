"""Size expressions, predicates, tiles and types from syntax.

Expressions are read as they are written: sums and products in normal form, calls kept (`min(4, 6)` of constants only
is folded), so that printing and parsing an expression gives the same one whatever is known about its symbols.
"""

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

from lark import Token

from tcpx.limits import DEEPEST_NESTING, INT64_MAX
from tcpx.payload.diagnostics import Direction, ParseError, either
from tcpx.payload.ir import Value
from tcpx.payload.sizes import (
    Atom,
    CeilDiv,
    Dim,
    FloorDiv,
    Max,
    Min,
    Mod,
    Size,
    ceildiv,
    evaluate,
    is_less_equal,
    product,
    to_text,
)
from tcpx.payload.sizes.excess import Excess, excess, excess_of_memory, excess_of_product
from tcpx.payload.sizes.predicates import Comparison, Predicate, Relation
from tcpx.payload.subsets import Tile
from tcpx.payload.text.hints import compared, dtype_fix
from tcpx.payload.text.scope import Scope, suggestion
from tcpx.payload.text.syntax import Node, Source, child, children, nodes, tokens
from tcpx.payload.types import SCALARS, SPACES, BufferType, ScalarType, TensorType, Type, VectorType, dtype_of, i1
from tcpx.plurals import counted

_RELATIONS: Final[dict[str, Relation]] = {"==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_CHAINED: Final = frozenset(("sum", "difference", "product"))
_DIGITS: Final = len(str(INT64_MAX)) + 1
_BARE_SYMBOLS: Final = re.compile(rf"((?:(?:[0-9]+|[A-Za-wyz_][A-Za-wyz0-9_]*)x)+)({'|'.join(SCALARS)})")
"""What stands in the place of an element type where symbols lack their brackets: `NxMx4xf32`."""
EXTREMA: Final = {kind.word: kind for kind in (Min, Max)}
DIVISIONS: Final = {kind.word: kind for kind in (FloorDiv, CeilDiv, Mod)}
_ELEMENT_FIRST: Final = Direction("read an element, gml_st.materialize(..) point [..], and compare that by tcp.greater")
ALWAYS = Comparison("==", 0, 0)
"""How the predicate that always holds is written."""


class DimReader:
    """Reads what is made of size expressions; errors point into the source."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._depth = 0

    @contextmanager
    def nested(self, node: Node) -> Generator[None, None, None]:
        """Reading what is inside a piece of syntax; a located error where that is too deep."""
        if self._depth >= DEEPEST_NESTING:
            raise self.source.error(
                node,
                f"the text is nested more than {DEEPEST_NESTING} deep here",
                required=f"at most {DEEPEST_NESTING} regions, lists, calls and signs within one another",
                found=f"{self._depth + 1} of them",
            )
        self._depth += 1
        yield
        self._depth -= 1

    def whole_number(self, token: Token, most: int = INT64_MAX) -> int:
        """The value of digits, at most `most`, which is not above 2**64."""
        digits = token.lstrip("0")
        if len(digits) > _DIGITS or int(digits or "0") > most:
            bits = most.bit_length()
            raise self.source.error(
                token,
                "the number is too large",
                required=f"at most 2**{bits} - 1" if most == (1 << bits) - 1 else f"at most {most}",
                found=str(token) if len(digits) <= 2 * _DIGITS else f"a number of {len(digits)} digits",
            )
        return int(digits or "0")

    def checked(self, node: Node, found: Excess | None) -> None:
        """Raise the located error for what is too large, if anything is."""
        if found is not None:
            raise self.source.error(node, found.message, required=found.required, found=found.found)

    def dim(self, node: Node, scope: Scope) -> Dim:
        """A size expression."""
        chain: list[Node] = []
        while node.data in _CHAINED:
            chain.append(node)
            node = nodes(node)[0]
        with self.nested(node):
            held = self._operand(node, scope)
            for operator in reversed(chain):
                held = self._combined(operator, held, self.dim(nodes(operator)[1], scope))
        return held

    def _combined(self, node: Node, lhs: Dim, rhs: Dim) -> Dim:
        if node.data == "product":
            self.checked(node, excess_of_product(lhs, rhs))
            made = lhs * rhs
        else:
            made = lhs + rhs if node.data == "sum" else lhs - rhs
        self.checked(node, excess(made))
        return made

    def _operand(self, node: Node, scope: Scope) -> Dim:
        match node.data:
            case "number":
                return self.whole_number(tokens(node)[0])
            case "named":
                return self._symbol(tokens(node)[0], scope)
            case "variable":
                return self._variable(tokens(node)[0], scope)
            case "negation":
                (inner,) = nodes(node)
                if inner.data == "number":
                    return -self.whole_number(tokens(inner)[0], INT64_MAX + 1)
                return -self.dim(inner, scope)
            case _:
                return self._call(node, scope)

    def _symbol(self, token: Token, scope: Scope) -> Dim:
        symbol = scope.symbol(token)
        if symbol is None:
            known = scope.symbol_names()
            raise self.source.error(
                token,
                f"unknown size `{token}`",
                required=f"a symbol of the function: {', '.join(sorted(known)) or 'it has none'}",
                found=f"`{token}`",
                fix=suggestion(token, known) or f"declare it: {scope.declared_with(token)}",
            )
        return symbol.size()

    def _variable(self, token: Token, scope: Scope) -> Dim:
        name = token[1:]
        variable = scope.variable(name)
        if variable is None:
            known = scope.variable_names()
            raise self.source.error(
                token,
                f"unknown loop variable {token}",
                required=f"the variable of a loop around this: {', '.join('%' + n for n in known) or 'there is none'}",
                found=f"the value {token}" if scope.value(name) is not None else str(token),
                fix=suggestion(name, known, "%") or _bound(scope.value(name)),
            )
        return variable.size()

    def _call(self, node: Node, scope: Scope) -> Dim:
        function = tokens(node)[0]
        args = tuple(self.dim(n, scope) for n in nodes(node))
        if function in EXTREMA:
            if len(args) < 2:
                raise self.source.error(
                    node,
                    f"{function} takes two or more sizes",
                    required="two or more sizes",
                    found=counted(len(args), "size"),
                )
            made: Atom = EXTREMA[function](args)
        else:
            if len(args) != 2:
                raise self.source.error(
                    node, f"{function} takes two sizes", required="two sizes", found=counted(len(args), "size")
                )
            if isinstance(args[1], int) and args[1] < 1:
                raise self.source.error(
                    node, f"{function} divides by {args[1]}", required="a positive divisor", found=str(args[1])
                )
            made = DIVISIONS[function](*args)
        return made.size() if any(isinstance(a, Size) for a in args) else evaluate(made, {})

    def dims(self, node: Node, scope: Scope) -> tuple[Dim, ...]:
        """A bracketed list of size expressions."""
        return tuple(self.dim(n, scope) for n in nodes(node))

    def integer(self, node: Node, scope: Scope, what: str) -> int:
        """A size expression that is a constant."""
        held = self.dim(node, scope)
        if not isinstance(held, int):
            raise self.source.error(node, f"{what} is static", required="an integer", found=str(held))
        return held

    def condition(self, node: Node, scope: Scope) -> Predicate:
        """Comparisons joined by `and`."""
        found: list[Comparison] = []
        for comparison in children(node, "comparison"):
            lhs, rhs = (self.dim(n, scope) for n in nodes(comparison))
            found.append(Comparison(_RELATIONS[tokens(comparison)[0]], lhs, rhs))
        return Predicate(() if found == [ALWAYS] else tuple(found))

    def check_compares_sizes(self, condition: Node, scope: Scope) -> None:
        """Raise ParseError where the condition of a branch compares a value that is computed."""
        for comparison in children(condition, "comparison"):
            names = [tokens(side)[0][1:] for side in children(comparison, "variable")]
            values = [value for n in names if scope.variable(n) is None and (value := scope.value(n)) is not None]
            if not values or i1 in (value.type for value in values):
                continue
            lhs, rhs = (self._as_operand(side) for side in nodes(comparison))
            raise self.source.error(
                comparison,
                "a condition compares sizes and loop variables",
                required="values to be compared by an operation, whose result is the condition",
                found=", ".join(f"%{value.name}: {value.type}" for value in values),
                fix=compared(lhs, rhs, tokens(comparison)[0])
                if all(isinstance(value.type, ScalarType) for value in values)
                else _bound(values[0]) or _ELEMENT_FIRST,
            )

    def _as_operand(self, node: Node) -> str:
        """How an operation reads a side of a comparison."""
        match node.data:
            case "variable" | "number":
                return str(tokens(node)[0])
            case "negation" if nodes(node)[0].data == "number":
                return f"-{self._as_operand(nodes(node)[0])}"
            case _:
                return "%size"  # of a tcp.index_value

    def tile(self, node: Node, scope: Scope) -> Tile:
        """`tile [offsets] [sizes] [strides] drop [dims]`."""
        lists = [self.dims(n, scope) for n in children(node, "dims")]
        drop = child(node, "drop")
        dropped = tuple(self.integer(n, scope, "a dropped dim") for n in nodes(nodes(drop)[0])) if drop else ()
        if any(len(held) != len(lists[0]) for held in lists):
            raise self.source.error(
                node,
                "a tile has as many sizes and strides as offsets",
                required=f"{len(lists[0])} of each",
                found=", ".join(str(len(held)) for held in lists),
            )
        if any(not 0 <= d < len(lists[0]) for d in dropped):
            raise self.source.error(
                node, "a dropped dim is a dim of the tile", required=f"below {len(lists[0])}", found=str(list(dropped))
            )
        return Tile(lists[0], lists[1], lists[2] if len(lists) > 2 else (), dropped)

    def type(self, node: Node, scope: Scope) -> Type:
        """A scalar, tensor, vector or buffer type."""
        if node.data == "scalar":
            return self._scalar(tokens(node)[0], scope)
        shape = nodes(node)[0]
        extents = list(children(shape, "static", "dynamic"))
        dtype = self._scalar(tokens(shape)[0], scope)
        dims = tuple(self._extent(n, scope, extents) for n in extents)
        self.checked(node, excess_of_memory(dims, dtype.bytes))
        if node.data == "tensor":
            return TensorType(dims, dtype)
        if node.data == "vector":
            static = [d for d in dims if isinstance(d, int)]
            if len(static) != len(dims):
                at = next(n for n, d in zip(extents, dims, strict=True) if not isinstance(d, int))
                raise self.source.error(at, "a vector has a static shape", required="an integer", found=_shown(dims))
            return VectorType(tuple(static), dtype)
        strides = self.dims(nodes(node)[1], scope)
        if len(strides) != len(dims):
            raise self.source.error(
                node,
                "a buffer has a stride per dim",
                required=f"{len(dims)} strides",
                found=counted(len(strides), "stride"),
            )
        space = tokens(node)[-1]
        if space not in SPACES:
            raise self.source.error(
                space,
                f"there is no space of memory `{space}`",
                required=either(SPACES),
                found=f"`{space}`",
                fix=suggestion(space, SPACES),
            )
        return BufferType(dims, dtype, strides, str(space))

    def extent_left(self, others: Dim) -> Dim | None:
        """The extent that -1 stands for elsewhere, beside others of this product; None where nothing says it."""
        del others
        return None

    def _extent(self, node: Node, scope: Scope, all_extents: Sequence[Node]) -> Dim:
        if node.data == "static":
            return self.whole_number(tokens(node)[0])
        held = self.dim(nodes(node)[0], scope)
        if isinstance(held, int) and held < 0:
            others = product(tuple(self._extent(n, scope, []) for n in all_extents if n is not node))
            left = self.extent_left(others) if all_extents and held == -1 else None
            fix = f"write [{to_text(left)}]" if left is not None else None
            raise self.source.error(node, "a dim is not negative", required="0 or more", found=str(held), fix=fix)
        return held

    def _scalar(self, token: Token, scope: Scope) -> ScalarType:
        found = SCALARS.get(token)
        if found is None:
            shape = _BARE_SYMBOLS.fullmatch(token)
            if shape is not None:
                raise self._bare_symbols(token, shape[1].split("x")[:-1], shape[2], scope)
            raise self.source.error(
                token,
                f"unknown element type `{token}`",
                required=", ".join(SCALARS),
                found=f"`{token}`",
                fix=dtype_fix(token) or suggestion(token, SCALARS),
            )
        return found

    def _bare_symbols(self, token: Token, dims: Sequence[str], dtype: str, scope: Scope) -> ParseError:
        """The error for `NxMx4xf32`."""
        names = [d for d in dict.fromkeys(dims) if not d.isdigit()]
        unknown = [name for name in names if scope.symbol(name) is None]
        written = "x".join([d if d.isdigit() else f"[{d}]" for d in dims] + [dtype])
        return self.source.error(
            token,
            f"the size `{names[0]}` stands without brackets",
            required="sizes that are no numbers in brackets, and declared",
            found=f"`{token}`",
            fix=f"write {written}"
            + (f", and declare symbols [{', '.join(unknown)}] after the results" if unknown else ""),
        )


def _shown(dims: Sequence[Dim]) -> str:
    return " x ".join(str(d) for d in dims)


def _bound(value: Value | None) -> str | None:
    """How a value becomes a size, or decides what a condition on sizes would."""
    if value is not None and value.type == i1:
        return Direction(f"a truth value stands alone: gml_st.if %{value.name} {{")
    if value is None or not dtype_of(value.type).is_integer:
        return None
    if isinstance(value.type, ScalarType):
        bind = f"gml_st.bind(%{value.name}) {{var = %size in 0 to END}}"
        return Direction(f"make it a size: {bind}, then %size is below END")
    read = f"gml_st.materialize(%{value.name}) point [..] : {dtype_of(value.type)}"
    return Direction(f"read an element, {read}, and make that a size: gml_st.bind")


def counting_up(variable: str, first: Dim, end: Dim, by: int) -> str:
    """What to write for a loop that counts down from `first` to above `end`, or over the same range backwards: where it
    provably rises, or only its end has a symbol."""
    rises = is_less_equal(first, end) is True or (isinstance(first, int) and not isinstance(end, int))
    is_backwards = rises and is_less_equal(end, first) is not True
    count, last = (ceildiv(end - first, by), end - 1) if is_backwards else (ceildiv(first - end, by), first)
    step = variable if by == 1 else f"{by} * {variable}"
    head = f"{variable} in 0 to {to_text(count)} step 1"
    return Direction(f"count up, `{head}`, and use the index `{to_text(last)} - {step}`")
