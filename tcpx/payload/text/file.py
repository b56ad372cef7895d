"""Reading a file: a regular one, text in UTF-8 of a bounded size, or an error with a place."""

import errno
import os
import stat
from collections.abc import Iterable
from io import BufferedReader
from pathlib import Path

from tcpx.limits import LARGEST_TEXT
from tcpx.payload.diagnostics import Diagnostic, Location
from tcpx.store.files_read import note_followed, note_missed, note_opened


class UnreadableError(Exception):
    """A file that is no text: what was found, and where."""

    def __init__(self, location: Location, found: str) -> None:
        super().__init__(found)
        self.location = location
        self.found = found

    def diagnostic(self, wanted: str) -> Diagnostic:
        """The words for a payload; `wanted` is what should have been there."""
        message = f"cannot read {self.location.file}"
        return Diagnostic(message, payload=self.location, required=f"{wanted} in UTF-8", found=self.found)


def printable(character: str) -> str:
    """A character for a message; of one that cannot be seen, its number."""
    return f"`{character}`" if character.isprintable() else f"U+{ord(character):04X}"


def open_regular(path: str | Path, *, is_noted: bool = True) -> BufferedReader:
    """A file opened for reading its bytes, noted as one that was read. Raises OSError, also for what is no file: a pipe
    may never end."""
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "A path with a NUL character", str(path))
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    status = os.fstat(number)
    if stat.S_ISREG(status.st_mode):
        if is_noted:
            note_opened(path, status)
        return os.fdopen(number, "rb")
    is_folder = stat.S_ISDIR(status.st_mode)
    os.close(number)
    code = errno.EISDIR if is_folder else errno.EINVAL
    raise OSError(code, os.strerror(code) if is_folder else "Not a regular file", str(path))


def is_file(path: Path) -> bool:
    """Whether there is such a file: where there is none, one that comes to be there changes what is read."""
    found = path.is_file()
    if not found:
        note_missed(path)
    return found


def file_below(folder: Path, name: str, also: Path | None = None) -> Path:
    """The file of a relative path, in a folder or below it also once links are followed, or directly in the folder
    `also`, which a link below the first one leads to. Raises OSError otherwise."""
    base = folder.resolve()
    try:
        found = (base / name).resolve()
    except (RuntimeError, ValueError) as error:  # links in a circle; a NUL
        raise OSError(errno.EINVAL, str(error), name) from error
    is_in_also = also is not None and found.parent == also and ".." not in Path(name).parts
    if Path(name).is_absolute() or not (found.is_relative_to(base) or is_in_also):
        raise OSError(errno.EACCES, f"{found} is not below {base}", name)
    note_followed(folder / name)
    return found


def unusual_path(name: str, files: Iterable[Path], suffix: str) -> str:
    """Why a path that stands in a text is not followed, empty if it is: an error in what is no such file quotes it."""
    if Path(name).is_absolute():
        return "an absolute path"
    return next((f"the file {file}" for file in files if file.resolve().suffix != suffix), "")


def read_text(path: Path) -> str:
    """The text of a file, without a byte order mark. Raises UnreadableError."""
    start = Location(str(path), 1, 1)
    try:
        with open_regular(path) as file:
            held = file.read(LARGEST_TEXT + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UnreadableError(start, reason) from error
    if len(held) > LARGEST_TEXT:
        raise UnreadableError(start, f"more than {LARGEST_TEXT} bytes")
    try:
        return held.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = held.count(b"\n", 0, error.start) + 1
        before = held[held.rfind(b"\n", 0, error.start) + 1 : error.start].decode("utf-8")
        place = Location(str(path), line, len(before) + 1)
        raise UnreadableError(place, f"the byte 0x{held[error.start]:02x}, which is no character") from error
