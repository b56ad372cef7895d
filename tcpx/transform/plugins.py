"""Transforms from other packages: entry points of the group `tcpx.transforms`.

An entry point names a module whose import registers transforms, or a transform class. What fails to load is left out
as a whole, with a diagnostic that names the package.
"""

import traceback
import warnings
from importlib.metadata import EntryPoint, entry_points

from tcpx.payload.diagnostics import Diagnostic, Direction, Kind, Location, TcpxError
from tcpx.payload.python_lines import frame_outside
from tcpx.transform.declaration import Transform, register
from tcpx.transform.language.builtins import FUNCTIONS
from tcpx.transform.language.tokens import HARD_KEYWORDS

GROUP = "tcpx.transforms"


class PluginWarning(UserWarning):
    """A package offers transforms that cannot be used."""


def load_plugins(registry: dict[str, type[Transform]]) -> tuple[Diagnostic, ...]:
    """Load every entry point, in the order of package and name; `registry` forgets what a failing one registered.

    Returns a diagnostic for each that failed, which is also given as a PluginWarning.
    """
    problems: list[Diagnostic] = []
    for entry in sorted(entry_points(group=GROUP), key=lambda e: (_package(e), e.name)):
        before = dict(registry)
        problem = _load(entry) or _hidden(entry, registry.keys() - before.keys())
        if problem is not None:
            registry.clear()
            registry.update(before)
            problems.append(problem)
            _warn(problem)
    return tuple(problems)


def _warn(problem: Diagnostic) -> None:
    """A warning at the line outside tcpx that first asked for a transform that is not its own."""
    caller = frame_outside("tcpx")
    warnings.warn_explicit(
        problem.render(),
        PluginWarning,
        caller.f_code.co_filename,
        caller.f_lineno,
        module=str(caller.f_globals.get("__name__", "")),
        registry=caller.f_globals.setdefault("__warningregistry__", {}),
    )


def _load(entry: EntryPoint) -> Diagnostic | None:
    message = _message(entry)
    try:
        loaded: object = entry.load()
        if isinstance(loaded, type) and issubclass(loaded, Transform):
            register(loaded)
    except TcpxError as error:
        known = error.diagnostic
        return Diagnostic(
            message,
            Kind.WARNING,
            schedule=_place(error),
            required=known.required,
            found=f"{known.message}: {known.found}",
            notes=(_from(entry),),
            fix=known.fix,
        )
    except Exception as error:  # noqa: BLE001 - a plugin may fail in any way
        return Diagnostic(
            message,
            Kind.WARNING,
            schedule=_place(error),
            required="a module that can be imported, or a transform in it",
            found=f"{type(error).__name__}: {error}",
            notes=(_from(entry),),
            fix=Direction(f"repair or uninstall {_package(entry)}"),
        )
    return None


def _hidden(entry: EntryPoint, names: set[str]) -> Diagnostic | None:
    """A name that the language has another meaning for could never be called."""
    taken = sorted(names & (FUNCTIONS.keys() | HARD_KEYWORDS))
    if not taken:
        return None
    return Diagnostic(
        _message(entry),
        Kind.WARNING,
        required="names that are no functions or keywords of the schedule language",
        found=", ".join(f"`{name}`" for name in taken),
        notes=(_from(entry),),
        fix=Direction("give the transform another name"),
    )


def _message(entry: EntryPoint) -> str:
    return f"the transforms of the package {_package(entry)} cannot be used"


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value


def _from(entry: EntryPoint) -> str:
    return f"named by the entry point `{entry.name} = {entry.value}` of the group {GROUP}"


def _place(error: BaseException) -> Location | None:
    """The innermost line outside of Python's import machinery and of tcpx, where the plugin failed."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    own = [f for f in frames if not f.filename.startswith(__file__.removesuffix("plugins.py"))]
    if isinstance(error, SyntaxError) and error.filename:
        return Location(error.filename, error.lineno or 1, error.offset or 1, text=(error.text or "").rstrip())
    if not own:
        return None
    last = own[-1]
    return Location(last.filename, last.lineno or 1, (last.colno or 0) + 1, text=last.line or "")
