"""Paths that something is to be written to."""

from pathlib import Path

from tcpx.payload.diagnostics import ArgumentError, Diagnostic, Direction


def path_to_write(path: str | Path) -> Path:
    """A path that something is to be written to. Raises ArgumentError for one that no file can have."""
    if "\0" in str(path):
        raise ArgumentError(
            Diagnostic(
                "the file cannot be written",
                required="a path without a NUL character",
                found=repr(str(path)),
                fix=Direction("name another file"),
            )
        )
    return Path(path)


def file_to_write(path: str | Path) -> Path:
    """The same; its folder is made if there is none. Raises OSError where it cannot be."""
    file = path_to_write(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    return file
