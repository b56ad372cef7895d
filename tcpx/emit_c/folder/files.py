"""The files of a kernel: written to a folder, and read from one."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tcpx.emit_c.driver import code_flags, linked_with
from tcpx.emit_c.folder.cmake import cmake_text
from tcpx.emit_c.folder.fields import unreadable
from tcpx.emit_c.folder.header import header
from tcpx.emit_c.folder.main_program import main_program
from tcpx.emit_c.folder.manifest import Manifest, read_manifest
from tcpx.emit_c.memory import Bytes, aligned_block
from tcpx.emit_c.printer.file import PrintedFile
from tcpx.emit_c.signature import KernelSignature
from tcpx.payload.diagnostics import ArgumentError, Diagnostic
from tcpx.payload.text.file import open_regular
from tcpx.plurals import counted
from tcpx.records import frozen
from tcpx.store.files import Content, write_whole
from tcpx.target import Target

MAIN: Final = "main.c"
CMAKE: Final = "CMakeLists.txt"


@frozen
class KernelFiles:
    """A kernel as files. `sources` are its C by file, that of the kernel first; `library` the path of the compiled one,
    if it is among them."""

    manifest: Manifest
    sources: Mapping[str, str]
    constants: Bytes
    library: Path | None = None

    @property
    def name(self) -> str:
        """What the files are called."""
        return self.manifest.signature.c_name


def files_of(
    printed: PrintedFile,
    signature: KernelSignature,
    constants: Bytes,
    target: Target,
    remarks: Sequence[Diagnostic] = (),
    tuned: str = "",
) -> KernelFiles:
    """The files of one kernel of a printed file."""
    targets = {name: of.name for name, of in printed.targets.items()}
    names = tuple(printed.sources)
    known = Manifest(
        signature,
        target.name,
        target.features,
        names,
        targets,
        printed.link,
        tuple(remarks),
        tuned,
        numbers=target.numbers,
    )
    return KernelFiles(known, printed.sources, constants)


def contents(files: KernelFiles, target: Target, targets: Mapping[str, Target]) -> dict[str, Content]:
    """All that is written of a kernel, by file name: a C library that CMake builds, a program that runs it, and what
    is `stored`; `targets` are those of files that are for another target."""
    signature = files.manifest.signature
    flags = {file: code_flags(targets.get(file, target)) for file in files.sources}
    texts = {
        f"{files.name}.h": header(next(iter(files.sources.values())), signature),
        MAIN: main_program(signature),
        CMAKE: cmake_text(signature, flags, linked_with(files.manifest.link)),
    }
    return {**stored(files), **{file: text.encode() for file, text in texts.items()}}


def stored(files: KernelFiles) -> dict[str, Content]:
    """What a kernel is loaded from, by file name: its C, its constants, its library if it is given, the manifest."""
    name = files.name
    made: dict[str, Content] = {file: text.encode() for file, text in files.sources.items()}
    if files.constants.size:
        made[f"{name}.bin"] = files.constants.data  # as they are: weights take most of the memory
    if files.library is not None:
        made[f"{name}.so"] = files.library.read_bytes()
    digests = {file: hashlib.sha256(content).hexdigest() for file, content in made.items()}
    return {**made, f"{name}.json": replace(files.manifest, digests=digests).text().encode()}


def write_folder(folder: Path, files: Mapping[str, Content]) -> None:
    """Write the files of a kernel, each in one step, the manifest last: who reads it finds the others. Raises
    ArgumentError where that cannot be, or a file in the way was not written for the same kernel."""
    if "\0" in str(folder):
        raise _unwritable("a path without a NUL character", repr(str(folder)), "another folder")
    for name in (MAIN, CMAKE):
        taken = folder / name
        if name in files and taken.is_file() and _first_line(taken.read_bytes()) != _first_line(bytes(files[name])):
            raise _unwritable(
                f"a folder without a {name}, or with that of the same kernel", f"another in {folder}", "another folder"
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in sorted(files, key=lambda name: name.endswith(".json")):
            write_whole(folder / name, files[name])
    except OSError as error:
        found = f"{error.strerror or error}: {error.filename or folder}"  # no name where the device is full
        raise _unwritable("a folder that can be written to", found, "another folder") from error


def _first_line(content: bytes) -> bytes:
    """What says who wrote a file, and for which kernel."""
    return content.partition(b"\n")[0]


def _unwritable(required: str, found: str, fix: str | None = None) -> ArgumentError:
    return ArgumentError(Diagnostic("the kernel cannot be saved", required=required, found=found, fix=fix))


def read_folder(folder: Path) -> KernelFiles:
    """The files of the one kernel of a folder. Raises ArgumentError, also for files that have changed."""
    found = [folder / name for name in _names(folder) if name.endswith(".json")]
    if len(found) != 1:
        required = "a folder that `Kernel.save` or `tcpx emit` wrote, with one NAME.json in it"
        shown = ", ".join(path.name for path in found) or ("none" if os.path.isdir(folder) else "no such folder")
        raise unreadable(str(folder), required, shown)
    manifest = read_manifest(_read(found[0]).decode(errors="replace"), str(found[0]))
    name = manifest.signature.c_name
    unknown = [file for file in manifest.files if file not in manifest.digests or Path(file).name != file]
    if unknown or not manifest.files:
        raise unreadable(str(found[0]), "C files in the folder, each with a digest", ", ".join(unknown) or "none")
    library = folder / f"{name}.so"
    return KernelFiles(
        manifest,
        {file: _checked(folder / file, manifest).decode(errors="replace") for file in manifest.files},
        _constants(folder / f"{name}.bin", manifest),
        library if library.name in manifest.digests else None,
    )


def _names(folder: Path) -> list[str]:
    """What is in a folder; nothing where it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except (OSError, ValueError):  # ValueError: a NUL character
        return []


def _constants(path: Path, manifest: Manifest) -> Bytes:
    """The constants, read to where the kernel reads them: weights take most of the memory."""
    size = manifest.signature.constants_bytes
    if not size:
        return aligned_block(0)
    try:
        with open_regular(path) as file:
            length = os.fstat(file.fileno()).st_size
            block = aligned_block(size if length == size else 0)
            count = file.readinto(block.data)
    except OSError as error:
        raise _no_file(path, error) from error
    if count != size:
        raise unreadable(str(path), counted(size, "byte"), counted(length, "byte"))
    _check(path, manifest, block.data)
    return block


def _checked(path: Path, manifest: Manifest) -> bytes:
    """What a file holds, if that is what was written."""
    content = _read(path)
    _check(path, manifest, content)
    return content


def _check(path: Path, manifest: Manifest, content: Content) -> None:
    """Raise ArgumentError for what is not what was written."""
    if hashlib.sha256(content).hexdigest() != manifest.digests.get(path.name):
        fix = "save the kernel again; to change C by hand, compile and call it without tcpx"
        raise unreadable(str(path), "the file as it was written", "another digest", fix)


def _read(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read()
    except OSError as error:
        raise _no_file(path, error) from error


def _no_file(path: Path, error: OSError) -> ArgumentError:
    return unreadable(str(path), "a file that can be read", error.strerror or str(error))
