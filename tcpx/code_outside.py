"""The code of operations and transforms that other packages and scripts declare, by content.

It is in the files of their modules, and of the modules that those use, as far as they belong to the same package or
are nobody's. Of other installed packages the version counts.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Final

_INSTALLED: Final = frozenset(("site-packages", "dist-packages"))


def code_of(classes: Iterable[type]) -> Mapping[str, str] | None:
    """What these classes do what they do by, by name of module or package; None where files do not tell: where one is
    declared in a function, which may give it anything, or was typed in."""
    outside = [held for held in classes if not _is_ours(held.__module__)]
    if any("<locals>" in held.__qualname__ for held in outside):
        return None
    own = {_package(held.__module__) for held in outside}
    found: dict[str, str] = {}
    waiting = sorted({held.__module__ for held in outside})
    while waiting:
        name = waiting.pop()
        module = sys.modules.get(name)
        file = _file_of(module)
        if name in found:
            continue
        if file is None:
            if any(held.__module__ == name for held in outside):
                return None
        elif _package(name) not in own and not _INSTALLED.isdisjoint(file.parts):
            found[_package(name)] = str(getattr(sys.modules.get(_package(name)), "__version__", ""))
        else:
            found[name] = file.read_text(encoding="utf-8", errors="replace")
            waiting += sorted(set(_used_by(module)) - found.keys())
    return found


def _file_of(module: ModuleType | None) -> Path | None:
    name = getattr(module, "__file__", None)
    path = Path(name) if isinstance(name, str) else None
    return path if path is not None and path.is_file() else None


def _used_by(module: ModuleType | None) -> Iterator[str]:
    """The names of the modules whose values a module has, those of Python and of tcpx left out."""
    for value in vars(module).copy().values() if module is not None else ():
        name: object = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        if isinstance(name, str) and not _is_ours(name):
            yield name


def _is_ours(module: str) -> bool:
    package = _package(module)
    return package == "tcpx" or package in sys.stdlib_module_names


def _package(module: str) -> str:
    return module.partition(".")[0]
