"""Changes of a schedule text that brings it to the newest version of the language; comments and lines stay."""

from collections.abc import Iterable, Iterator

from tcpx.payload.diagnostics import Location
from tcpx.records import frozen
from tcpx.transform.declaration import known_transform
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.binding import transform_arguments
from tcpx.transform.language.source import Source
from tcpx.transform.language_versions import DIFFERENCES, NEWEST, Difference


@frozen
class Edit:
    """A piece of a text, and what takes its place."""

    start: int
    end: int
    text: str


@frozen
class Concerned:
    """A statement with a call that a newer version of the language may refuse."""

    difference: Difference
    place: Location
    call: ast.Call

    @property
    def arguments(self) -> dict[str, ast.Argument]:
        """By the names of the parameters of the transform."""
        transform = known_transform(self.difference.subject)
        if transform is None:
            raise TypeError(f"required a transform, found {self.difference.subject}")
        return transform_arguments(transform, self.call)


def concerned(file: ast.File) -> Iterator[Concerned]:
    """The statements of a file that newer versions may refuse: without an argument that is `true` in the text."""
    refused = [each for each in DIFFERENCES if each.argument]
    for statement in ast.walk(file.items):
        call = _called(statement)
        for difference in refused if call is not None else ():
            if call is None or not _names(call, difference):
                continue
            found = Concerned(difference, statement.location, call)
            given = found.arguments
            if not any(name in given and _is_true(given[name].value) for name in difference.allowed_by):
                yield found


def _is_true(value: ast.Expression) -> bool:
    return isinstance(value, ast.Literal) and value.value is True


def _called(statement: ast.Node) -> ast.Call | None:
    match statement:
        case ast.Do(call=call):
            return call
        case ast.Let(value=ast.Call() as call):
            return call
        case _:
            return None


def _names(call: ast.Call, difference: Difference) -> bool:
    return isinstance(call.function, ast.Name) and call.function.name == difference.subject


def with_language(text: str, file: ast.File) -> Edit:
    """The edit of the line `language` to the newest version."""
    place = file.items[0].location
    source = Source(place.file, text)
    return Edit(_offset(source, place.line, place.column), _end(source, place), f"language {NEWEST}")


def with_argument(text: str, statement: Concerned) -> Edit:
    """The edit that gives a call the argument `true`."""
    source = Source(statement.place.file, text)
    given = statement.arguments.get(statement.difference.argument)
    if given is not None:
        place = given.value.location
        return Edit(_offset(source, place.line, place.column), _end(source, place), "true")
    behind = _end(source, statement.call.arguments[-1].location)
    return Edit(behind, behind, f", {statement.difference.argument}: true")


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits, which do not overlap."""
    text = text.removeprefix("\ufeff")
    for edit in sorted(edits, key=lambda each: each.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def _end(source: Source, place: Location) -> int:
    return _offset(source, place.end_line, place.end_column)


def _offset(source: Source, line: int, column: int) -> int:
    return sum(len(each) + 1 for each in source.lines[: line - 1]) + column - 1
