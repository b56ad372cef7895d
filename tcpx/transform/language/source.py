"""A text with the name of its file: makes Locations."""

from lark import Token, Tree

from tcpx.payload.diagnostics import Location


class Source:
    """One text, without a byte order mark; places in it are Locations with the source line for the caret."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text.removeprefix("\ufeff")
        self.lines = self.text.split("\n")
        self._shown = [line.rstrip("\r") for line in self.lines]

    def at(self, line: int, column: int, end_line: int = 0, end_column: int = 0) -> Location:
        text = self._shown[line - 1] if 0 < line <= len(self._shown) else ""
        return Location(self.file, line, column, end_line or line, end_column or column + 1, text)

    def end(self) -> Location:
        """Behind the last character that is not blank."""
        last = next((k for k in range(len(self.lines), 0, -1) if self.lines[k - 1].strip()), 1)
        return self.at(last, len(self.lines[last - 1].rstrip()) + 1)

    def of_token(self, token: Token) -> Location:
        return self.at(token.line or 1, token.column or 1, token.end_line or 0, token.end_column or 0)

    def of(self, node: Tree[Token] | Token) -> Location:
        if isinstance(node, Token):
            return self.of_token(node)
        meta = node.meta
        if meta.empty:
            return self.at(1, 1)
        return self.at(meta.line, meta.column, meta.end_line, meta.end_column)
