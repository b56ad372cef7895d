"""Tokens -> lines of at most 120 columns, broken inside brackets or at operators."""

from collections.abc import Sequence
from dataclasses import replace

from tcpx.transform.language.formatter.alignment import WIDTH, Line, Mark
from tcpx.transform.language.formatter.structure import Element, Group, Leaf, Remark

_BREAK_BEFORE = frozenset("AND OR WHERE ELSE".split())
_BREAK_BEHIND = frozenset("PLUS MINUS TIMES POWER DIVIDE MODULO COMPARISON LESSTHAN MORETHAN EQUAL COMMA".split())
"""A newline at these places never ends a statement."""
_CONTINUATION = 4
_INSIDE = 2
_WORTH_OPENING = 30
"""A bracket whose text is shorter is opened only where there is no operator to break at."""


class LineWriter:
    """Writes one statement: text goes to the current line, which `new_line` ends."""

    def __init__(self, indent: int) -> None:
        self._base = indent
        self._indent = indent
        self._lines: list[Line] = []
        self._text = " " * indent
        self._behind = ""
        self._mark: Mark | None = None

    # -- lines -------------------------------------------------------------------------------------------------------

    @property
    def _is_fresh(self) -> bool:
        return not self._text.strip()

    def start(self, text: str) -> None:
        self._text = " " * self._base + text

    def new_line(self, deeper: int = 0) -> None:
        if not self._is_fresh or self._behind:
            self._lines.append(Line(self._text.rstrip(), self._behind, self._mark))
        self._text, self._behind, self._mark = " " * (self._indent + deeper), "", None

    def finish(self) -> list[Line]:
        """The lines so far."""
        self.new_line()
        lines, self._lines = self._lines, []
        return lines

    def write_text(self, text: str) -> None:
        self._text += text

    def mark_at(self, kind: str, offset: int, kept: bool) -> None:
        """Mark the place before the token that `offset` characters of the statement and a blank precede."""
        if not self._lines:
            self._mark = Mark(kind, self._base + offset + 1, kept)

    def mark_next(self, kind: str, kept: bool) -> None:
        self._mark = Mark(kind, len(self._text) + 1, kept)

    def room(self, elements: Sequence[Element]) -> int:
        """Columns left on the line when these are written on it; -1 if they cannot be."""
        text = flat(elements)
        return -1 if text is None else WIDTH - len(self._text) - 1 - len(text)

    # -- comments ----------------------------------------------------------------------------------------------------

    def remark_behind(self, remark: Remark) -> None:
        self._behind = remark.text

    def remarks(self, element: Element, deeper: int = 0) -> None:
        """The comments in front of an element: behind the line, or on lines of their own; then a new line."""
        leaf = element.open if isinstance(element, Group) else element
        for remark in leaf.remarks:
            if not remark.own_line and not self._is_fresh:
                self.remark_behind(remark)
                self.new_line(deeper)
            else:
                self.new_line(deeper)
                self._lines.append(Line(self._text + remark.text, is_code=False))

    # -- code --------------------------------------------------------------------------------------------------------

    def write(self, elements: Sequence[Element], reserve: int = 0, deeper: int = _CONTINUATION) -> None:
        """Elements of one statement or item; `reserve` columns are needed behind them, further lines are `deeper`."""
        text = flat(elements)
        if text is not None and len(self._text) + _space(elements, self._is_fresh) + len(text) + reserve <= WIDTH:
            self._put(elements[0], text)
            return
        commented = next((k for k, element in enumerate(elements) if _first(element).remarks), None)
        if commented is not None:
            self.write(elements[:commented], deeper=deeper) if commented else None
            self.remarks(elements[commented], 0 if self._is_fresh else deeper)
            self.write(bare(elements[commented:]), reserve, deeper)
            return
        opened = _to_open(elements, WIDTH - len(self._text) - reserve)
        if opened is not None:
            self._open(elements, opened, reserve, deeper)
            return
        chunks = _chunks(elements)
        if len(chunks) > 1:
            self._fill(chunks, reserve, deeper)
        else:
            for element in elements:
                self._put(element, flat([element]) or "")

    def _put(self, first: Element, text: str) -> None:
        self._text += " " * _space([first], self._is_fresh) + text

    def _open(self, elements: Sequence[Element], at: int, reserve: int, deeper: int) -> None:
        """Write the bracket at this place over several lines."""
        group = elements[at]
        if not isinstance(group, Group):
            raise TypeError("only a bracket can be opened")
        if at:
            self.write(elements[:at], reserve=1, deeper=deeper)
        self._put(group.open, group.open.text)
        self._indent += _INSIDE
        items = [element for item in group.items for element in item]
        together = flat(items)
        if items and together is not None and self._indent + len(together) <= WIDTH:
            self.new_line()
            self._put(items[0], together)
        else:
            for item in group.items:
                if _first(item[0]).remarks:
                    self.remarks(item[0])
                self.new_line()
                self.write(bare(item))
        if group.close.remarks:
            self.remarks(group.close)
        self._indent -= _INSIDE
        self.new_line()
        self._text += group.close.text
        if at + 1 < len(elements):
            self.write(elements[at + 1 :], reserve, deeper)

    def _fill(self, chunks: Sequence[Sequence[Element]], reserve: int, deeper: int) -> None:
        """As many chunks per line as fit."""
        for k, chunk in enumerate(chunks):
            behind = reserve if k == len(chunks) - 1 else 0
            if k > 0 and self.room(chunk) < behind:
                self.new_line(deeper)
            self.write(chunk, behind, deeper)


def flat(elements: Sequence[Element]) -> str | None:
    """The elements on one line, without the blank before them; None where a comment stands among them."""
    text = ""
    for k, leaf in enumerate(_leaves(elements)):
        if leaf.remarks:
            return None
        text += " " * (k > 0 and leaf.space) + leaf.text
    return text


def _leaves(elements: Sequence[Element]) -> list[Leaf]:
    found: list[Leaf] = []
    for element in elements:
        if isinstance(element, Leaf):
            found.append(element)
        else:
            inside = [leaf for item in element.items for leaf in _leaves(item)]
            found += [element.open, *inside, element.close]
    return found


def _first(element: Element) -> Leaf:
    return element.open if isinstance(element, Group) else element


def _space(elements: Sequence[Element], at_start: bool) -> int:
    return int(not at_start and _first(elements[0]).space)


def bare(elements: Sequence[Element]) -> tuple[Element, ...]:
    """The elements without the comments in front of the first one."""
    first = elements[0]
    if isinstance(first, Group):
        return (replace(first, open=replace(first.open, remarks=())), *elements[1:])
    return (replace(first, remarks=()), *elements[1:])


def _to_open(elements: Sequence[Element], room: int) -> int | None:
    """The bracket to write over several lines: one that holds a comment, else the longest that is worth it."""
    groups = [(k, flat([element])) for k, element in enumerate(elements) if isinstance(element, Group)]
    commented = next((k for k, text in groups if text is None), None)
    if commented is not None:
        return commented
    filled = [(len(text), k) for k, text in groups if text is not None and len(text) > 2]
    if not filled:
        return None
    length, at = max(filled)
    if len(_chunks(elements)) == 1:
        return at
    rest = len(flat(elements) or "") - length
    is_logic = any(isinstance(element, Leaf) and element.kind in ("AND", "OR") for element in elements)
    return at if length >= _WORTH_OPENING and rest <= room and not is_logic else None


def _chunks(elements: Sequence[Element]) -> list[list[Element]]:
    """Pieces between which the line may be broken."""
    chunks: list[list[Element]] = [[]]
    for element in elements:
        kind = element.kind if isinstance(element, Leaf) else ""
        if kind in _BREAK_BEFORE and chunks[-1]:
            chunks.append([])
        chunks[-1].append(element)
        if kind in _BREAK_BEHIND and (kind == "COMMA" or _first(element).space):
            chunks.append([])
    return [chunk for chunk in chunks if chunk]
