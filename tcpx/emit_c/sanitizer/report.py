"""What a sanitizer says, as a diagnostic at the operation and the schedule line that the C was printed for."""

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tcpx.payload.diagnostics import Diagnostic, Kind, Location
from tcpx.payload.ir import Operation
from tcpx.plurals import counted
from tcpx.records import frozen

_ADDRESS: Final = re.compile(r"ERROR: AddressSanitizer: (\S+)(?: on (?:unknown )?address (0x[0-9a-f]+))?")
_RANGE: Final = r"\[(0x[0-9a-f]+),\s*0x[0-9a-f]+\)"
_OVERLAP: Final = re.compile(
    rf"ERROR: AddressSanitizer: \S+-param-overlap: memory ranges {_RANGE} and {_RANGE} overlap"
)
_ACCESS: Final = re.compile(r"\b(READ|WRITE) (?:of size (\d+)|memory access)")
_UNDEFINED: Final = re.compile(r"^(\S+?):(\d+):\d+: runtime error: (.*)$", re.MULTILINE)
_UNSYMBOLIZED: Final = re.compile(r"^\s+#\d+ 0x[0-9a-f]+ .*\((\S+)\+(0x[0-9a-f]+)\)", re.MULTILINE)
_EXCERPT_LINES: Final = 12


@frozen
class Memory:
    """A block that the kernel was given: an array by name, the constants or the workspace."""

    name: str
    address: int
    size: int

    def describe(self, address: int) -> str:
        """Where an address is, seen from this block."""
        if address < self.address:
            where = f"{self.address - address} byte(s) before"
        elif address >= self.address + self.size:
            where = f"{address - self.address - self.size} byte(s) behind the end of"
        else:
            where = f"at byte {address - self.address} of"
        return f"{where} {self.name} ({counted(self.size, 'byte')})"

    def distance(self, address: int) -> int:
        """Bytes from the block to the address; 0 within."""
        return max(self.address - address, address - (self.address + self.size), 0)


def is_report(text: str) -> bool:
    """Whether a sanitizer said this."""
    return bool(_ADDRESS.search(text) or _UNDEFINED.search(text))


def diagnostic_of(
    text: str, program: Path, operations: Mapping[int, Operation], memory: Sequence[Memory]
) -> Diagnostic:
    """The diagnostic of a report on stderr. `operations` has what the lines of `program`'s C were printed for."""
    source = program.with_suffix(".c")
    message, required, found = _facts(text, memory)
    line = _line(text, program, source.name)
    notes: list[str] = []
    op = None
    if line is not None:
        c_text = source.read_text(encoding="ascii").splitlines()[line - 1].strip()
        notes.append(f"C at {source}:{line}: {c_text}")
        op = operations.get(line)
    else:
        notes += [said for said in text.splitlines() if said.strip()][:_EXCERPT_LINES]
    if op is not None:
        notes.append(f"printed for {f'%{op.name} ' if op.name else ''}({op.opcode})")
    return Diagnostic(
        message,
        kind=Kind.INTERNAL,
        schedule=_statement(op) if op is not None else None,
        payload=op.location if op is not None else None,
        required=required,
        found=found,
        notes=tuple(notes),
    )


def _statement(op: Operation) -> Location | None:
    """The schedule statement that made the operation, or else the innermost loop round it that one made."""
    return next((held.schedule_location for held in (op, *op.ancestors()) if held.schedule_location is not None), None)


def _facts(text: str, memory: Sequence[Memory]) -> tuple[str, str, str]:
    """Message, what was required, what was found."""
    undefined = _UNDEFINED.search(text)
    if undefined is not None:
        return "the kernel computes something that C does not define", "C whose behaviour is defined", undefined[3]
    overlap = _OVERLAP.search(text)
    if overlap is not None:
        destination, source = (_place(int(start, 16), memory) for start in overlap.groups())
        return (
            "the kernel moves memory to where it overlaps",
            "memory apart from what is moved",
            f"from: {source}; to: {destination}",
        )
    address, access = _ADDRESS.search(text), _ACCESS.search(text)
    kind = address[1] if address is not None else "error"
    verb = access[1].lower() if access is not None else "access"
    size = f" of {access[2]} byte(s)" if access is not None and access[2] else ""
    where = _place(int(address[2], 16), memory) if address is not None and address[2] else "no address"
    return (
        f"the kernel leaves its memory ({kind})",
        "reads and writes within arrays, constants and workspace",
        f"a {verb}{size}, {where}",
    )


def _place(address: int, memory: Sequence[Memory]) -> str:
    """Where an address is, seen from the block next to it."""
    if not memory:
        return f"address {address:#x}"
    return min(memory, key=lambda held: held.distance(address)).describe(address)


def _line(text: str, program: Path, source: str) -> int | None:
    """The line of the kernel's C that the report is about: its first stack frame in that file."""
    frame = re.search(rf"^(?:\s+#\d+ .*/|\S*/){re.escape(source)}:(\d+)", text, re.MULTILINE)
    if frame is not None:
        return int(frame[1])
    offsets = [offset for file, offset in _UNSYMBOLIZED.findall(text) if Path(file).name == program.name]
    tool = shutil.which("addr2line")  # clang without llvm-symbolizer prints offsets alone
    if not offsets or tool is None:
        return None
    done = subprocess.run([tool, "-i", "-e", str(program), *offsets], capture_output=True, text=True, check=False)
    frame = re.search(rf"/{re.escape(source)}:(\d+)", done.stdout)
    return int(frame[1]) if frame is not None else None
