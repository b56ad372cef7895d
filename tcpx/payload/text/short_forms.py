"""Operands that are written in place, and names for operations that the text does not write."""

from collections.abc import Sequence
from dataclasses import replace

from lark import Token

from tcpx.limits import UINT64_MAX
from tcpx.payload.diagnostics import Direction, Location, ParseError, VerifyError
from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.shorthand import Shorthand
from tcpx.payload.short_operands import Number, OperandLike, short_name, written_out
from tcpx.payload.text.attributes import WORDS, AttributeReader
from tcpx.payload.text.scope import Scope
from tcpx.payload.text.syntax import Node, Source, child, tokens
from tcpx.payload.types import SCALARS, Type
from tcpx.plurals import counted


class ShortFormReader(AttributeReader):
    """Reads operands in place; gives operations that a function does not write names that are free in it."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._function: Node | None = None
        self._taken: set[str] | None = None
        self.demanded: list[Operation] = []
        """What operations that are written for others demand of the sizes of the function."""

    def enter(self, function: Node) -> None:
        """Read this function from now on."""
        self._function, self._taken, self.demanded = function, None, []

    def free_name(self, base: str) -> str:
        """`base`, or `base1`, `base2`, ..: the first that the function does not have."""
        if self._taken is None:
            trees = self._function.iter_subtrees() if self._function is not None else ()  # of any depth
            self._taken = {str(token)[1:] for tree in trees for token in tree.children if _is_value(token)}
        name, count = base, 0
        while name in self._taken:
            count += 1
            name = f"{base}{count}"
        self._taken.add(name)
        return name

    def later_definition(self, use: Token) -> int | None:
        """The line of the statement below this use that defines the name in the same function."""
        trees = self._function.find_data("results") if self._function is not None else ()
        found = [token for tree in trees for token in tokens(tree) if token == use]
        return next((token.line for token in found if (token.start_pos or 0) > (use.start_pos or 0)), None)

    def literal(self, node: Node, scope: Scope) -> Number:
        """A number, or a word for one."""
        *sign, token = tokens(node)
        match token.type:
            case "FLOAT":
                value: Number = self.float_number(token)
            case "INT":
                value = self.whole_number(token, UINT64_MAX)
            case _:
                word = WORDS.get(str(token))
                if not isinstance(word, int | float) or (sign and word != float("inf")):
                    raise self.source.error(
                        node,
                        f"`{self.source.location(node).span}` is no operand",
                        required="a value such as %x, a number, inf, -inf, nan, true or false",
                        fix=_operand_meant(token, "".join(sign), scope),
                    )
                value = word
        return -value if sign else value

    def written_out(
        self, node: Node | None, cls: type[Operation], given: Sequence[OperandLike], types: Sequence[Type], name: str
    ) -> list[Value]:
        """The operands of an operation called `name`; operations that make some of them stand nowhere yet."""
        entries = [] if node is None else node.children
        places = {k: e for k, (e, v) in enumerate(zip(entries, given, strict=False)) if not isinstance(v, Value)}
        try:
            values = written_out(cls, given, types)
        except VerifyError as error:
            place = self.source.location(next(iter(places.values())))
            raise ParseError(replace(error.diagnostic, payload=place)) from None
        for index, entry in places.items():
            made = values[index].defining_op
            if made is not None:
                made.location = self.source.location(entry)
                made.name = made.result.name = self.free_name(short_name(name, cls, index))
            if isinstance(made, Shorthand) and not isinstance(entry, Token):
                values[index] = self.expanded(made, entry)[0].result
        return values

    def expanded(self, op: Shorthand, node: Node) -> list[Operation]:
        """The operations that one is written for, each makes one of its results; those that make their operands stand
        nowhere yet."""
        name = child(node, "op_name")
        if name is not None and len(op.results) > 1:
            raise self.source.error(
                name,
                f"{op.opcode} is written for {counted(len(op.results), 'operation')}, which have one name each",
                required="the names of the results",
                found=self.source.location(name).span,
            )
        made = [value.defining_op for value in op.expanded()]
        for demand in op.demands():
            if all(demand.attributes != known.attributes for known in self.demanded):
                demand.location = self.source.location(node)
                self.demanded.append(demand)
        tops = [top for top in made if top is not None]
        for top, result in zip(tops, op.results, strict=True):
            self.finish(top, self.source.location(node), f"{result.name}.wide")
            top.name = top.result.name = result.name
        return tops

    def finish(self, op: Operation, place: Location, base: str) -> None:
        """Say where an operation stands in the text, and those that make its operands and stand nowhere yet; give what
        the text does not name names that are free."""
        op.location = place
        for inner in op.walk():
            own = inner.results if inner is not op else []
            for value in (*own, *(argument for block in inner.regions for argument in block.args)):
                value.name = self.free_name(value.name)
            inner.name = inner.results[0].name if own else inner.name
        for value in op.operands:
            if value.defining_op is not None and value.defining_op.parent is None:
                self.finish(value.defining_op, place, base)
                value.name = value.defining_op.name = self.free_name(base)


def _operand_meant(token: Token, sign: str, scope: Scope) -> str | None:
    """What is written for a word that is no operand."""
    word = token.rpartition(".")[2].lower()
    if word in ("inf", "infinity") or (word == "nan" and not sign):
        return f"write {sign}{word[:3]}"
    if sign:
        return None
    if scope.value(str(token)) is not None:
        return f"write %{token}"
    if scope.symbol(str(token)) is not None:
        return Direction(f"write `%c = tcp.fill {{value = {token}}} : TYPE` before it, and %c in its place")
    return Direction("leave it out: the type of the result says it") if token in SCALARS else None


def _is_value(token: Node | Token) -> bool:
    return isinstance(token, Token) and token.type == "VALUE"
