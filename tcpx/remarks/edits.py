"""What a payload and a schedule are once a hint is followed."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from tcpx.payload.diagnostics import Location
from tcpx.payload.ir import Module
from tcpx.payload.text.parser import parse_print
from tcpx.payload.text.printer import print_func, print_module
from tcpx.records import frozen
from tcpx.remarks.hints import Hint, PayloadEdit
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.loader import Program, default_program, program_of_file
from tcpx.transform.language.parser import parse_schedule
from tcpx.transform.language_versions import NEWEST

FILE = "<hint>"
Position = tuple[int, int]


def position(node: ast.Node) -> Position:
    """Statements that are equal are distinguished by their places."""
    return node.location.line, node.location.column


@frozen
class ScheduleEdit:
    """Statements by the places of those that they replace, `first` and `last` ones of the schedule, and items after the
    line of its language."""

    in_place: Mapping[Position, Sequence[ast.Statement]]
    first: Sequence[ast.Statement] = ()
    last: Sequence[ast.Statement] = ()
    imports: Sequence[ast.Item] = ()

    def of(self, file: ast.File) -> ast.File:
        """The file after it."""

        def change(node: object) -> object:
            if isinstance(node, ast.Block):
                found = [new for each in node.statements for new in self.in_place.get(position(each), (each,))]
                return replace(node, statements=tuple(found))
            if isinstance(node, ast.Schedule):
                return replace(node, body=self._around(node.body))
            return node

        head, *items = ast.rebuilt(file.items, change)
        return replace(file, items=(head, *self.imports, *items))

    def _around(self, block: ast.Block) -> ast.Block:
        return ast.Block((*self.first, *block.statements, *self.last), location=block.location)


def statements_of(lines: Sequence[str], root: str) -> Sequence[ast.Statement]:
    """The statements of a schedule in these lines; `root` is what the schedule calls its function."""
    text = "\n".join((f"language {NEWEST}", f"schedule s({root}: func) {{", *lines, "}\n"))
    schedule = parse_schedule(text, FILE).items[-1]
    return schedule.body.statements if isinstance(schedule, ast.Schedule) else ()


def argument_of(text: str) -> ast.Argument | None:
    """The argument of a call in a text, `tail: pad`; None where the text is none."""
    if not re.fullmatch(r"\w+: \w+", text):
        return None
    (example,) = statements_of([f"f({text})"], "root")
    return example.call.arguments[0] if isinstance(example, ast.Do) else None


def extended(call: ast.Call, argument: ast.Argument) -> ast.Call:
    """A call with an argument, in place of another one of its name."""
    kept = [each for each in call.arguments if each.name != argument.name]
    return replace(call, arguments=(*kept, argument))


def with_argument(file: ast.File, place: Location, text: str) -> ast.File | None:
    """The file with an argument in the call at a place; None where the text is no argument, or no call is there."""
    argument = argument_of(text)
    if argument is None:
        return None
    changed = False

    def change(node: object) -> object:
        nonlocal changed
        if not isinstance(node, ast.Call) or position(node) != (place.line, place.column):
            return node
        changed = True
        return extended(node, argument)

    new = replace(file, items=tuple(ast.rebuilt(file.items, change)))
    return new if changed else None


def import_of(line: str) -> ast.Item:
    """The import in a line."""
    return parse_schedule(f"language {NEWEST}\n{line}\n", FILE).items[-1]


def edited_payload(module: Module, hint: Hint) -> Module | None:
    """A copy of a payload with the change of a hint, verified; itself if there is none, None where a statement that it
    replaces is written in that of its user. Raises ParseError and VerifyError."""
    if hint.payload is None:
        return module
    lines = _lines_after(module, hint.payload)
    if lines is None:
        return None
    found = parse_print("\n".join(lines) + "\n", FILE, constants=module.constants)
    found.entry = module.entry
    return found


def _lines_after(module: Module, edit: PayloadEdit) -> list[str] | None:
    owner = next(func for func in module.funcs.values() if any(op is edit.at for op in func.walk()))
    text = print_func(owner)
    lines = text.splitlines()
    spans = [span_of(lines, op.results[0].name) for op in (edit.at, *edit.replaced)]
    if not all(spans):
        return None
    gone = {number for span in spans[1:] for number in span}
    changed: list[str] = []
    for number, line in enumerate(lines):
        changed += edit.lines if number == spans[0].start else ()
        changed += [line] if number not in gone else []
    return print_module(module).replace(text, "\n".join(changed) + "\n").splitlines()


def span_of(lines: Sequence[str], name: str) -> range:
    """The lines of the statement whose first result has this name; none where it is written in that of its user."""
    begins = (k for k, line in enumerate(lines) if line.lstrip().startswith((f"%{name} = ", f"%{name}, ")))
    start = next(begins, None)
    if start is None:
        return range(0)
    depth, end = _depth(lines[start]), start + 1
    while end < len(lines) and (_depth(lines[end]) > depth or lines[end].startswith(f"{' ' * depth}}}")):
        end += 1
    return range(start, end)


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def edited_program(program: Program, hint: Hint) -> Program:
    """The schedule after a hint, with what it imports; itself where the hint does not change it, the default one where
    that is what the hint says. Raises ScheduleError."""
    if hint.is_default:
        return default_program()
    if hint.schedule is None:
        return program
    folders = [folder for unit in program.units for folder in _folders(unit.file.path, program)]
    return program_of_file(hint.schedule, list(dict.fromkeys(folders)), Path(program.main.file.path).parent)


def _folders(path: str, program: Program) -> Iterator[Path]:
    """The folders in which a path of an import was found."""
    for unit in program.units:
        for item in unit.file.items:
            parts = PurePath(item.path).parts if isinstance(item, ast.Import) else ()
            if parts and PurePath(path).parts[-len(parts) :] == parts:
                yield Path(path).parents[len(parts) - 1]
