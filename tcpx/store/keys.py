"""What decides an entry of the store, said in one way: a key is the digest of words.

Code is one of them. That of operations and transforms from outside is in the files of their modules, and of the modules
that those use, as far as they belong to the same package or are nobody's. Of other installed packages the version
counts.
"""

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Final

from tcpx.installed import CODE, LIBRARY, PACKAGE

DIGITS: Final = 32
"""Of a key, which is hexadecimal."""
_INSTALLED: Final = frozenset(("site-packages", "dist-packages"))


def key_of(*words: object) -> str:
    """The key of what these words decide: texts and bytes as they are, all else as `repr` shows it."""
    digest = hashlib.sha256()
    for word in words:
        match word:
            case bytes():
                content = word
            case str():
                content = word.encode(errors="surrogatepass")
            case _:
                content = repr(word).encode()
        digest.update(b"%d:" % len(content))
        digest.update(content)
    return digest.hexdigest()[:DIGITS]


def own_code() -> Iterator[str]:
    """The files that tcpx does what it does by."""
    yield from _below(PACKAGE, CODE)


def own_schedules() -> Iterator[str]:
    """The library of schedules."""
    yield from _below(LIBRARY, (".tcps",))


@lru_cache(maxsize=1)
def own_code_key() -> str:
    """The code of tcpx by content."""
    return key_of(*(word for path in own_code() for word in (path.removeprefix(str(PACKAGE)), Path(path).read_bytes())))


def version_of(*sources: Path) -> str:
    """The version of code: sizes and times of its files, as Python compares its sources, and of Python itself."""
    known = [(source.name, status.st_size, status.st_mtime_ns) for source in sources if (status := source.stat())]
    return f"{sys.version} {known}"


def _below(folder: Path, suffixes: tuple[str, ...]) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (os.path.join(place, name) for name in sorted(names) if name.endswith(suffixes))


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
