"""What `params=` can set in a schedule, as far as its text alone tells."""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from tcpx.interp.knob_names import BEYOND
from tcpx.interp.knobs import ParamValue, matches_nothing, overrides_of
from tcpx.payload.diagnostics import Diagnostic
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.loader import Program


def unknown_params(program: Program, params: Mapping[str, ParamValue] | None) -> tuple[Diagnostic, ...]:
    """What is wrong with params whose name no knob of the schedule, or of what it imports, has.

    Which uses of a sequence there are is known with a payload only, so of a path its last part is looked at.
    Raises ScheduleError for a name or a value that no knob can have.
    """
    given = overrides_of(params).values
    names = sorted(set(_names(program))) if given else []
    return tuple(
        matches_nothing(key, value, names)
        for key, value in given.items()
        if not any(_may_mean(key.removesuffix(BEYOND), name) for name in names)
    )


def _may_mean(key: str, name: str) -> bool:
    """Whether it is the name, or a glob of which some part at the end matches `.name`, the end of a path."""
    if key.isidentifier():
        return key == name
    return any(fnmatchcase(f".{name}", key[k:]) for k in range(len(key)) if k or key.startswith("*"))


def _names(program: Program) -> Iterator[str]:
    for schedule in program.main.schedules.values():
        yield from (param.name for param in schedule.params[1:])
    for unit in program.units:
        for declared in (*unit.sequences.values(), *unit.schedules.values()):
            nodes = list(ast.walk(declared))
            yield from (node.name for node in nodes if isinstance(node, ast.Knob))
            tunes = [node for node in nodes if isinstance(node, ast.Tune)]
            yield from (node.name for node in tunes if node.name)
            yield from (f"tune{k}" for k, _ in enumerate((n for n in tunes if not n.name), start=1))
