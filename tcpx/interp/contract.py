"""`expects`: a schedule states which payload it is for, by a payload file or by a signature."""

import re
from collections.abc import Iterator
from pathlib import Path

from tcpx.payload.diagnostics import Diagnostic, Direction, Location, ParseError, ScheduleError, VerifyError
from tcpx.payload.ir import FuncOp, Module
from tcpx.payload.structural_difference import Difference, signature_differences, structural_differences
from tcpx.payload.structure import fingerprint
from tcpx.payload.text.file import UnreadableError, read_text, unusual_path
from tcpx.payload.text.parser import parse
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.loader import Program

SHOWN_DIFFERENCES = 8


def check_contract(program: Program, schedule: ast.Schedule, func: FuncOp) -> None:
    """Refuse a function that is not of the structure that the schedule expects. Raises ScheduleError."""
    expects = schedule.expects
    if not expects:
        return
    if _is_signature(expects):
        found = signature_differences(_signature(schedule), func)
        if found:
            raise _refused(schedule, found, f"a function {expects}", f"@{func.name}: {_types_of(func)}")
        return
    expected = _payload(program, schedule).main
    required = f"the structure of @{expected.name} in {expects} (fingerprint {fingerprint(expected)})"
    found = structural_differences(expected, func)
    if found:
        raise _refused(schedule, found, required, f"@{func.name} (fingerprint {fingerprint(func)})")


def _refused(schedule: ast.Schedule, found: tuple[Difference, ...], required: str, given: str) -> ScheduleError:
    more = len(found) - SHOWN_DIFFERENCES
    notes = (*map(str, found[:SHOWN_DIFFERENCES]), *((f"and {more} more",) if more > 0 else ()))
    return ScheduleError(
        Diagnostic(
            f"the schedule `{schedule.name}` is for another payload",
            schedule=schedule.location,
            payload=next((d.found for d in found if d.found is not None), None),
            required=required,
            found=given,
            notes=notes,
            fix=Direction("bring schedule and payload together again, and then `expects` up to date"),
        )
    )


def expected_payload(program: Program, schedule: ast.Schedule) -> Module | None:
    """The payload of the file that a schedule expects; None for a signature, or for none. Raises ScheduleError."""
    expects = schedule.expects
    return None if not expects or _is_signature(expects) else _payload(program, schedule)


def _is_signature(expects: str) -> bool:
    return expects.lstrip().startswith("(")


def _payload(program: Program, schedule: ast.Schedule) -> Module:
    """The payload file that `expects` names, beside the schedule."""
    path = Path(program.main.file.path).parent / schedule.expects
    try:
        strange = unusual_path(schedule.expects, [path], ".tcp")
        if strange:
            raise UnreadableError(Location(schedule.expects, 1, 1), strange)
        return parse(read_text(path), str(path), path.parent)
    except (UnreadableError, ParseError, VerifyError, OSError, ValueError, RuntimeError) as error:
        known = error.diagnostic if isinstance(error, ParseError | VerifyError) else None
        raise ScheduleError(
            Diagnostic(
                f'the payload "{schedule.expects}" that the schedule expects cannot be read',
                schedule=schedule.location,
                payload=known.payload if known is not None else None,
                required="the relative path of a payload (.tcp), or a signature such as `(tensor<[B]x64xf32>) -> ...`",
                found=str(error) if known is None else known.message,
            )
        ) from error


def _signature(schedule: ast.Schedule) -> FuncOp:
    """A function with the arguments and results of an inline signature: results are its last arguments."""
    inputs, results = _split(schedule)
    kinds = [("argument", inputs), ("result", results)]
    args = [f"%{kind}{k}: {type_}" for kind, types in kinds for k, type_ in enumerate(types)]
    names = dict.fromkeys(re.findall(r"\[(\w+)\]", schedule.expects))
    symbols = f" symbols [{', '.join(names)}]" if names else ""
    try:
        return parse(f"func @signature({', '.join(args)}){symbols} {{\n  tcp.return()\n}}\n", "<signature>").main
    except ParseError as error:
        raise _unreadable(schedule, error.diagnostic.message) from None


def _unreadable(schedule: ast.Schedule, why: str) -> ScheduleError:
    return ScheduleError(
        Diagnostic(
            "the signature that the schedule expects cannot be read",
            schedule=schedule.location,
            required="`(tensor<[B]x64xf32>, tensor<64x10xf32>) -> tensor<[B]x10xf32>`",
            found=f"{schedule.expects}: {why}",
        )
    )


def _split(schedule: ast.Schedule) -> tuple[list[str], list[str]]:
    found = re.fullmatch(r"\s*\((.*?)\)\s*->\s*(?:\((.*)\)|([^()].*?))\s*", schedule.expects)
    if found is None:
        raise _unreadable(schedule, "no `(arguments) -> results`")
    inputs, several, one = found.groups()
    return list(_types(inputs)), list(_types(several or one or ""))


def _types(text: str) -> Iterator[str]:
    """The types of a list, with or without names in front."""
    for part in re.split(r",(?![^<]*>)", text):
        if part.strip():
            yield part.rpartition(":")[2].strip()


def _types_of(func: FuncOp) -> str:
    inputs = ", ".join(str(v.type) for v in func.args)
    results = ", ".join(str(v.type) for v in func.returned)
    return f"({inputs}) -> {results if len(func.returned) == 1 else f'({results})'}"
