"""Operands that are written in place, and names for operations that the text does not write."""

from collections.abc import Sequence
from dataclasses import replace

from lark import Token

from tcpx.limits import UINT64_MAX
from tcpx.payload.diagnostics import ParseError, VerifyError
from tcpx.payload.ir import Operation, Value
from tcpx.payload.short_operands import Number, OperandLike, short_name, written_out
from tcpx.payload.text.attributes import WORDS, AttributeReader
from tcpx.payload.text.scope import Scope
from tcpx.payload.text.syntax import Node, Source, tokens
from tcpx.payload.types import Type


class ShortFormReader(AttributeReader):
    """Reads operands in place; gives operations that a function does not write names that are free in it."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._function: Node | None = None
        self._taken: set[str] | None = None

    def enter(self, function: Node) -> None:
        """Read this function from now on."""
        self._function, self._taken = function, None

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
                        fix=f"write %{token}" if scope.value(str(token)) is not None and not sign else None,
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
        return values


def _is_value(token: Node | Token) -> bool:
    return isinstance(token, Token) and token.type == "VALUE"
