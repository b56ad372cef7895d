"""What a compiled kernel is, and the memory it works in."""

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from tcpx.emit_c.driver import compiler_flags
from tcpx.emit_c.memory import huge_page_bytes, huge_page_policy
from tcpx.emit_c.printer.file import PrintedFile
from tcpx.emit_c.signature import KernelSignature
from tcpx.payload.diagnostics import ArgumentError, Diagnostic
from tcpx.payload.sizes import evaluate, to_text
from tcpx.records import brief, frozen
from tcpx.target import Target


@frozen
class KernelReport:
    """Facts about a kernel; as text, a table of them. Memory is in bytes.

    `workspace` is its size over the symbols; `workspace_bytes`, and the `live_bytes` of them that are live at once, are
    None where they depend on symbols that were not given. `huge_pages` is the policy of the system.
    """

    kernel: str
    target: str
    threads: int
    flags: tuple[str, ...]
    library: Path
    workspace: str
    workspace_bytes: int | None
    live_bytes: int | None
    constants_bytes: int
    huge_pages: str
    functions: int = 0
    """How many functions it calls, each compiled once; `clones` of them are copies for one call (`clone`)."""
    clones: int = 0
    tuned: str = ""
    """The tuned record that it was compiled with, if any, and which function has that of which."""
    remarks: tuple[Diagnostic, ...] = ()
    """What the schedule left as it is where it could, and why."""
    targets: Mapping[str, str] = field(default_factory=dict[str, str])
    """The files of functions for another target, with its name."""
    link: tuple[str, ...] = ()
    """The libraries that it calls, and flags for the linker."""

    def __repr__(self) -> str:
        return brief("KernelReport", "of", self.kernel, "for", self.target)

    @property
    def workspace_on_huge_pages(self) -> int | None:
        """What the system is asked to put there; None as for `workspace_bytes`."""
        return None if self.workspace_bytes is None else huge_page_bytes(self.workspace_bytes)

    @property
    def constants_on_huge_pages(self) -> int:
        """What the system is asked to put there."""
        return huge_page_bytes(self.constants_bytes)

    def __str__(self) -> str:
        known = self.workspace_bytes
        workspace = "its size depends on the sizes" if known is None else _memory(known)
        if self.workspace != str(known):
            workspace = f"{workspace}: {self.workspace}"
        lines = {
            "kernel": self.kernel,
            "target": f"{self.target}, {self.threads} thread(s)",
            "flags": " ".join(self.flags),
            **{file: f"for {name}" for file, name in self.targets.items()},
            "library": str(self.library),
            **({"linked with": " ".join(self.link)} if self.link else {}),
            "workspace": workspace,
            **({"live": f"{self.live_bytes} bytes of it at once"} if self.live_bytes else {}),
            "constants": _memory(self.constants_bytes),
            **({"functions": f"{self.functions}, {self.clones} of them clones"} if self.functions else {}),
            **({"tuned": self.tuned} if self.tuned else {}),
            "huge pages": self.huge_pages,
        }
        table = [f"{name:<11} {text}" for name, text in lines.items()]
        return "\n".join([*table, *(remark.render() for remark in self.remarks)])


def report_of(
    signature: KernelSignature,
    target: Target,
    library: Path,
    sizes: Mapping[str, int],
    remarks: tuple[Diagnostic, ...] = (),
    printed: PrintedFile | None = None,
) -> KernelReport:
    """The facts of a kernel for these values of its symbols, of none or some. Raises ArgumentError for other names."""
    symbols = {symbol.name for symbol in signature.symbols}
    unknown = sorted(set(sizes) - symbols)
    if unknown:
        raise ArgumentError(
            Diagnostic(
                f"@{signature.name} has no size `{unknown[0]}`",
                required=f"one of {', '.join(sorted(symbols))}" if symbols else "no sizes: all are fixed",
                found=", ".join(unknown),
            )
        )
    size = signature.workspace_bytes
    is_known = isinstance(size + signature.live_bytes, int) or symbols == set(sizes)
    return KernelReport(
        kernel=str(signature),
        target=target.title,
        threads=signature.threads,
        flags=compiler_flags(target, signature.threads),
        library=library,
        workspace=to_text(size),
        workspace_bytes=evaluate(size, sizes) if is_known else None,
        live_bytes=evaluate(signature.live_bytes, sizes) if is_known else None,
        constants_bytes=signature.constants_bytes,
        huge_pages=huge_page_policy(),
        functions=signature.functions,
        clones=signature.clones,
        remarks=remarks,
        targets={file: of.name for file, of in printed.targets.items()} if printed else {},
        link=printed.link if printed else (),
    )


def _memory(size: int) -> str:
    huge = huge_page_bytes(size)
    return f"{size} bytes" + (f", {huge} of them on huge pages" if huge else "")
