"""Statements and blocks -> lines."""

from collections.abc import Sequence

from tcpx.transform.language.formatter.alignment import WIDTH, Line
from tcpx.transform.language.formatter.structure import Block, Element, Group, Leaf, Part, Remark, Statement
from tcpx.transform.language.formatter.wrapping import LineWriter, bare, flat

INDENT = 2
_MARKED = {"EQUAL": frozenset(("LET", "KNOB"))}


class Layout:
    """Collects the lines of one text."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def body(self, body: Sequence[Statement | Remark], indent: int) -> None:
        """Statements and the comments between them; one empty line where there were some, and around items."""
        apart = _heads_of_items(body) if indent == 0 else frozenset[int]()
        for k, item in enumerate(body):
            if k > 0 and (item.spaced or k in apart):
                self.lines.append(Line(""))
            if isinstance(item, Remark):
                self.lines.append(Line(" " * indent + item.text, is_code=False))
            else:
                self._statement(item, indent)

    def _statement(self, statement: Statement, indent: int) -> None:
        texts = [_short(part, indent) for part in statement.parts]
        writer = LineWriter(indent)
        if all(text is not None for text in texts):
            self._one_line_parts(statement, writer)
        else:
            self._long_parts(statement, writer, indent)
        if statement.behind is not None:
            writer.remark_behind(statement.behind)
        self.lines += writer.finish()

    def _one_line_parts(self, statement: Statement, writer: LineWriter) -> None:
        """`if c { f(x) }`, `else { g(x) }`: each part on its line; what has no block stands behind the last one."""
        for k, part in enumerate(statement.parts):
            if k > 0:
                writer.remarks(part.head[0])
                if part.block is not None or writer.room(bare(part.head)) < 0:
                    writer.new_line()
            writer.write(bare(part.head))
            if part.block is not None:
                writer.mark_next(_block_kind(statement), part.block.open.padded)
                inside = part.block.body[0] if part.block.body else None
                if isinstance(inside, Statement):
                    writer.write_text(" {")
                    writer.write(inside.parts[0].head)
                    writer.write_text(" }")
                else:
                    writer.write_text(" {}")
            elif k == 0:
                self._mark_equal(statement, writer)

    def _mark_equal(self, statement: Statement, writer: LineWriter) -> None:
        head = statement.parts[0].head
        first = head[0]
        for k, element in enumerate(head):
            if isinstance(element, Leaf) and isinstance(first, Leaf) and first.kind in _MARKED.get(element.kind, ()):
                before = flat(head[:k])
                if before is not None:
                    writer.mark_at(first.kind, len(before), element.padded)
                return

    def _long_parts(self, statement: Statement, writer: LineWriter, indent: int) -> None:
        """`if c {`, the block, `} else {`, the block, `}`."""
        for k, part in enumerate(statement.parts):
            head = part.head
            if k > 0:
                if _leading(head).remarks:
                    writer.remarks(head[0])
                    writer.new_line()
                head = bare(head)
            writer.write(head, reserve=2 if part.block is not None else 0)
            if part.block is not None:
                if part.block.open.remarks:
                    writer.remarks(part.block.open)
                    writer.new_line()
                writer.write(bare((part.block.open,)))
                self._block(part.block, writer, indent)

    def _block(self, block: Block, writer: LineWriter, indent: int) -> None:
        if block.behind is not None:
            writer.remark_behind(block.behind)
        self.lines += writer.finish()
        self.body(block.body, indent + INDENT)
        writer.start("}")


def _heads_of_items(body: Sequence[Statement | Remark]) -> frozenset[int]:
    """Where an item that has a block, or what follows it, begins, the comments attached to it included."""
    found: set[int] = set()
    after_block = False
    start = 0
    for k, item in enumerate(body):
        if item.spaced:
            start = k
        if isinstance(item, Remark):
            continue
        if after_block or not item.is_simple:
            found.add(start)
        after_block = not item.is_simple
        start = k + 1
    if after_block and start < len(body):
        found.add(start)
    return frozenset(found)


def _block_kind(statement: Statement) -> str:
    first = statement.parts[0].head[0]
    return f"{first.kind} block" if isinstance(first, Leaf) else "block"


def _short(part: Part, indent: int) -> str | None:
    """A part on one line, if it may stand there; a part without a block may be broken."""
    if part.block is None:
        return ""
    head = flat(bare(part.head))
    inside = _short_block(part.block)
    if head is None or inside is None or indent + len(head) + 1 + len(inside) > WIDTH:
        return None
    return f"{head} {inside}"


def _short_block(block: Block) -> str | None:
    """`{ f(x) }`, `{}`: what the author wrote on one line, if it is one plain statement without comments."""
    if not block.one_line or block.behind is not None or block.open.remarks or len(block.body) > 1:
        return None
    if not block.body:
        return "{}"
    (statement,) = block.body
    if isinstance(statement, Remark) or not statement.is_simple or statement.behind is not None:
        return None
    inside = flat(statement.parts[0].head)
    return None if inside is None else f"{{ {inside} }}"


def _leading(head: Sequence[Element]) -> Leaf:
    return head[0].open if isinstance(head[0], Group) else head[0]
