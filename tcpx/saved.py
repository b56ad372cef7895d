"""Kernels from folders: `tcpx.load_kernel`."""

from pathlib import Path

from tcpx.emit_c.folder.fields import unreadable
from tcpx.emit_c.folder.files import read_folder
from tcpx.emit_c.kernel import Kernel, kernel_of_files
from tcpx.payload.given import path_of
from tcpx.target import Target, available_targets, load_target, target_with


def load_kernel(folder: str | Path, target: str | Target | None = None) -> Kernel:
    """The kernel that `Kernel.save` or `tcpx emit` wrote to a folder.

    A library that was saved with it is loaded as it is, in milliseconds; without one, or where it cannot be loaded, the
    C is compiled. `target` has to be given where its table is a file of its own. The trace of the schedule is not
    saved: `Kernel.trace` is None. Raises ArgumentError for a folder without a kernel, or one whose files have changed;
    TargetError where this CPU cannot run it; CompileError.

    Loading runs native code from the folder, as importing a module does: load only what you trust.
    """
    files = read_folder(path_of(folder, "a folder"))
    known = files.manifest
    if target is None and known.target not in available_targets():
        raise unreadable(
            str(folder),
            f"the target {known.target}, whose table is a file of its own",
            f"the installed ones: {', '.join(available_targets())}",
            'give it: tcpx.load_kernel(.., target=tcpx.load_target("my.yaml", allow_native=True))',
        )
    named = target_with(known.target, known.features, known.numbers) if target is None else target
    chosen = load_target(named)
    if chosen.name != known.target:
        raise unreadable(str(folder), f"the target {known.target}", chosen.name)
    chosen.require_cpu()
    return kernel_of_files(files, chosen)
