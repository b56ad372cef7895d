"""What a compiled kernel is, and the memory it works in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tcpx.emit_c.driver import compiler_flags
from tcpx.emit_c.memory import huge_page_bytes, huge_page_policy
from tcpx.emit_c.signature import KernelSignature
from tcpx.payload.diagnostics import ArgumentError, Diagnostic
from tcpx.payload.sizes import evaluate, to_text
from tcpx.target import Target


@dataclass(frozen=True, slots=True)
class KernelReport:
    """Facts about a kernel; as text, a table of them. Memory is in bytes.

    `workspace` is its size over the symbols; `workspace_bytes` and `workspace_on_huge_pages` are None where it depends
    on symbols that were not given. What is on huge pages is what the system is asked to put there, which depends on
    `huge_pages`, its policy.
    """

    kernel: str
    target: str
    threads: int
    flags: tuple[str, ...]
    library: Path
    workspace: str
    workspace_bytes: int | None
    workspace_on_huge_pages: int | None
    constants_bytes: int
    constants_on_huge_pages: int
    huge_pages: str

    def __str__(self) -> str:
        workspace = "its size depends on the sizes"
        if self.workspace_bytes is not None and self.workspace_on_huge_pages is not None:
            workspace = _memory(self.workspace_bytes, self.workspace_on_huge_pages)
        if self.workspace_bytes is None or self.workspace != str(self.workspace_bytes):
            workspace = f"{workspace}: {self.workspace}"
        lines = {
            "kernel": self.kernel,
            "target": f"{self.target}, {self.threads} thread(s)",
            "flags": " ".join(self.flags),
            "library": str(self.library),
            "workspace": workspace,
            "constants": _memory(self.constants_bytes, self.constants_on_huge_pages),
            "huge pages": self.huge_pages,
        }
        return "\n".join(f"{name:<11} {text}" for name, text in lines.items())


def report_of(signature: KernelSignature, target: Target, library: Path, sizes: Mapping[str, int]) -> KernelReport:
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
    workspace = evaluate(signature.workspace_bytes, sizes) if symbols == set(sizes) else None
    if isinstance(signature.workspace_bytes, int):
        workspace = signature.workspace_bytes
    return KernelReport(
        kernel=str(signature),
        target=target.name,
        threads=signature.threads,
        flags=compiler_flags(target, signature.threads),
        library=library,
        workspace=to_text(signature.workspace_bytes),
        workspace_bytes=workspace,
        workspace_on_huge_pages=None if workspace is None else huge_page_bytes(workspace),
        constants_bytes=signature.constants_bytes,
        constants_on_huge_pages=huge_page_bytes(signature.constants_bytes),
        huge_pages=huge_page_policy(),
    )


def _memory(size: int, huge: int) -> str:
    return f"{size} bytes" + (f", {huge} of them on huge pages" if huge else "")
