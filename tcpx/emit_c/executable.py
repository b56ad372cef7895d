"""Whether the system can load what a compiler wrote, as far as the headers of the file tell."""

import struct
import sys
from pathlib import Path
from typing import Final

from tcpx.plurals import counted

_ELF_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_LITTLE_64: Final = b"\x02\x01"
"""Class and byte order of the files that these two structures are in."""
_ELF_SEGMENT: Final = struct.Struct("<IIQQQQQQ")


def executable_fault(path: Path) -> str:
    """Why the system cannot load a file that a compiler wrote, empty where it can, as far as its headers tell."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(_ELF_HEADER.size)
        if not sys.platform.startswith("linux"):
            return "" if head else "an empty file"
        if len(head) < _ELF_HEADER.size or not head.startswith(b"\x7fELF"):
            return f"{counted(size, 'byte')} that are no ELF file"
        if head[4:6] != _LITTLE_64:
            return ""
        *_, segments_at, _, _, _, segment_size, count, _, _, _ = _ELF_HEADER.unpack(head)
        for k in range(count):
            file.seek(segments_at + k * segment_size)
            segment = file.read(_ELF_SEGMENT.size)
            if len(segment) < _ELF_SEGMENT.size:
                return f"{counted(size, 'byte')}, cut short"
            _, _, offset, _, _, in_file, _, _ = _ELF_SEGMENT.unpack(segment)
            if offset + in_file > size:
                return f"{counted(size, 'byte')}, cut short: a part of it ends at {offset + in_file}"
    return "" if count else "an ELF file that has nothing to load"
