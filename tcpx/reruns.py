"""Kernels by the files that they were made of: what `tcpx run` ran runs again without a model being read.

A note says which kernel a command line gave, and what every file was like that was read meanwhile: where its links end,
device, inode, size, and when content and inode changed, in nanoseconds. Git's index and the manifests of ccache go by
the same. Where anything differs, the files are read again and the kernel is found by their content (`request_cache`).

A file may change twice within a tick of its file system's clock. So nothing is noted of a run that read files which had
changed less than two seconds before, the longest tick there is (FAT's): Git reads such files again, too.
"""

import os
import pickle
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from tcpx.emit_c.binding import Library, Result
from tcpx.emit_c.compiler import find_compiler
from tcpx.emit_c.memory import Bytes
from tcpx.emit_c.signature import KernelSignature
from tcpx.machine import this_machine
from tcpx.payload.diagnostics import CompileError, Diagnostic
from tcpx.payload.size_values import SizeValues
from tcpx.processor import cpu_flags
from tcpx.records import frozen
from tcpx.store.files import read_sealed
from tcpx.store.files_read import FilesRead, FileState, stamp, state_of
from tcpx.store.keys import key_of, own_code, own_schedules
from tcpx.store.store import RUNS, use

_NOTE: Final = "note"
TICK: Final = 2_000_000_000
"""Nanoseconds in which a file may change twice without its times telling."""


@frozen
class KernelFacts:
    """What a command shows of a kernel. `names` are those of its arguments by the model's, `values` the files of inputs
    of the model that are constants of the kernel, `numbers` dims of the model that are numbers of it."""

    signature: KernelSignature
    target: str
    lines: int
    remarks: tuple[Diagnostic, ...]
    names: Mapping[str, str]
    values: Mapping[str, str]
    numbers: SizeValues


@frozen
class _Note:
    """A run. `files` are those of the kernel as well; at `missing` there was none."""

    facts: KernelFacts
    files: tuple[FileState, ...]
    missing: tuple[str, ...]
    library: Path
    constants: Path
    entry: Path

    def holds(self, given: Mapping[str, str], sizes: SizeValues) -> bool:
        """Whether everything is as it was, for these files of inputs by name and these sizes."""
        taken = {argument.name for argument in self.facts.signature.arguments}
        return (
            all(name in self.facts.values or self.facts.names.get(name, name) in taken for name in given)
            and all(os.path.abspath(given.get(name, "")) == path for name, path in self.facts.values.items())
            and all(sizes.get(name) == number for name, number in self.facts.numbers.items())
            and all(state_of(held.path) == held for held in self.files)
            and not any(os.path.lexists(path) for path in self.missing)
        )

    def kernel(self) -> Callable[..., Result]:
        """The kernel, whose constants are mapped. Raises CompileError and OSError where that cannot be."""
        signature = self.facts.signature
        library = Library(self.library, [signature])
        is_there = signature.constants_bytes > 0
        constants: Bytes = np.memmap(self.constants, np.uint8, "r") if is_there else np.empty(0, np.uint8)
        call = library.wrapper(signature, constants).call
        return lambda *arrays: call(arrays, None)


class Request:
    """A command line, as far as a kernel depends on it; made before anything is read."""

    def __init__(self, words: Sequence[object]) -> None:
        """Raises CompileError without a compiler."""
        self._started = time.time_ns()
        code = [(path, os.stat(path)) for path in (*own_code(), *own_schedules())]
        self._newest = max(max(status.st_mtime_ns, status.st_ctime_ns) for _, status in code)
        states = [(path, *stamp(status)) for path, status in code]
        self._key = key_of(words, sorted(cpu_flags()), this_machine(), find_compiler(), states)

    def found(self, given: Mapping[str, str], sizes: SizeValues) -> tuple[Callable[..., Result], KernelFacts] | None:
        """The kernel of a run before, for these files of inputs by name and these sizes, if nothing has changed
        since."""
        for folder in RUNS.found(self._key):
            note = _read(folder / _NOTE, self._key)
            if note is None or not note.holds(given, sizes):
                continue
            try:
                kernel = note.kernel()
            except (CompileError, OSError):  # of another machine, or taken out just now
                continue
            use(folder, note.entry, note.library.parent)
            return kernel, note.facts
        return None

    def note(self, read: FilesRead, facts: KernelFacts, library: Path, entry: Path) -> None:
        """Note a run, whose kernel is kept in the folder `entry`, unless a file has just changed. Where that cannot be
        written, as on a full disk, a warning says so."""
        name, has_constants = facts.signature.c_name, facts.signature.constants_bytes > 0
        constants = entry / f"{name}.bin"
        kernel = [library, entry / f"{name}.json", *([constants] if has_constants else [])]
        others = [state_of(path) for path in (*read.followed, *_packages())]
        sources = [*read.opened.values(), *(state for state in others if state is not None)]
        newest = max([self._newest, *(state.newest for state in sources)])
        if None in others or newest > self._started - TICK:
            return
        facts = replace(facts, values={key: os.path.abspath(path) for key, path in facts.values.items()})
        files = [state for state in map(state_of, kernel) if state is not None]
        if len(files) < len(kernel) or any(state_of(state.path) != state for state in sources):
            return
        note = _Note(facts, (*sources, *files), tuple(sorted(read.missed)), library, constants, entry)
        try:
            RUNS.put(self._key, {}, {_NOTE: pickle.dumps(note)}, [entry, library.parent])
        except OSError as error:
            found = error.strerror or str(error)
            warnings.warn(f"the run is not noted for other processes: {found}", RuntimeWarning, stacklevel=2)


def _packages() -> Iterable[str]:
    """A file of each package that is in use and neither Python's nor tcpx: another version is another file."""
    for name, module in tuple(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is not None and "." not in name and name not in sys.stdlib_module_names | {"__main__", "tcpx"}:
            yield os.path.abspath(file)


def _read(path: Path, key: str) -> _Note | None:
    """A note, if it is whole. It is a pickle, which runs what it says: the directory is the user's alone, as the
    libraries in it, which run too."""
    body = read_sealed(path, key)
    try:
        held: object = None if body is None else pickle.loads(body)
    except (ImportError, AttributeError, pickle.UnpicklingError):  # from before another version of NumPy came
        return None
    return held if isinstance(held, _Note) else None
