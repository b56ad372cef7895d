"""The gallery: layers of convolutional networks, each with its payload, its schedule, its loop nest and the assembly of
its inner loop.

`make docs` writes the pages. The assembly is that of one compiler: it is stored in docs/gallery/*.s, which

    python docs/gallery_page.py

writes again with the C compiler of this machine.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import tcpx

EXAMPLES: Final = Path(__file__).parents[1] / "examples" / "gallery"
FOLDER: Final = Path(__file__).with_name("gallery")
TARGET: Final = "x86_avx512"
LAYERS: Final[Mapping[str, str]] = {
    "dense": "Dense 3x3 convolution",
    "pointwise": "1x1 convolution",
    "depthwise": "Depthwise 3x3 convolution",
    "pooling": "Max pooling",
    "grouped": "Grouped 3x3 convolution",
}
"""The title of each example."""
_JUMP: Final = re.compile(r"\tj\w+\t(\.L\w+)$")
_LABEL: Final = re.compile(r"(\.L\w+):$")
_VECTORS: Final = re.compile(r"\tv(?:fn?m\w+|max|min|add|mul)\w*[ps][sd]\t")
_INDEX: Final = """\
# Gallery

<!-- Made by `make docs` from examples/gallery; do not edit. -->

Layers of convolutional networks, a page each: the payload, a schedule of its own, the loop nest that the schedule
makes, and the assembly of the inner loop. The default schedule computes such layers by the same recipes, for any size,
dtype and target (`schedules/lib/convolutions.tcps`).

"""
_PAGE: Final = """\
# {title}

<!-- Made by `make docs` from examples/gallery/{name}.*; do not edit. -->

For {target}, one thread. To run it:

    tcpx run examples/gallery/{name}.tcp -s examples/gallery/{name}.tcps --random 0 --check

## Payload

```
{payload}```

## Schedule

```tcps
{schedule}```

## Loop nest

Before its operations become vectors:

```
{nest}
```

## Inner loop

As {compiler} compiles it, with the flags of `tcpx emit`:

```asm
{assembly}```
"""


def gallery_pages() -> dict[str, str]:
    """The text of each page by its file's name."""
    lines = [f"* [{title}]({name}.md)" for name, title in LAYERS.items()]
    return {"README.md": _INDEX + "\n".join(lines) + "\n"} | {f"{name}.md": _page(name) for name in LAYERS}


def _page(name: str) -> str:
    explanation = tcpx.explain(*_example(name), target=TARGET)
    tiled = [step for step in explanation.steps if step.loops is not None and step.transform != "vectorize"]
    until = next(step.index for step in explanation.steps if step.transform == "vectorize")
    nest = str(max((step for step in tiled if step.index < until), key=lambda step: step.index).loops)
    compiler, assembly = (FOLDER / f"{name}.s").read_text(encoding="utf-8").split("\n", 1)
    return _PAGE.format(
        title=LAYERS[name],
        name=name,
        target=TARGET,
        payload=(EXAMPLES / f"{name}.tcp").read_text(encoding="utf-8"),
        schedule=(EXAMPLES / f"{name}.tcps").read_text(encoding="utf-8"),
        nest=nest.rstrip(),
        compiler=compiler.removeprefix("# "),
        assembly=assembly,
    )


def _example(name: str) -> tuple[tcpx.Module, tcpx.Schedule]:
    return tcpx.load(EXAMPLES / f"{name}.tcp"), tcpx.load_schedule(EXAMPLES / f"{name}.tcps")


def stored_assembly(name: str) -> str:
    """The name of the compiler, then the inner loop as it compiles it. Raises CalledProcessError."""
    source = tcpx.emit(*_example(name), target=TARGET)
    with tempfile.TemporaryDirectory(prefix="tcpx-gallery-") as folder:
        source.write(folder)
        command = ["cc", *source.flags, "-S", "-o", "-", str(Path(folder, source.c_files[0]))]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    said = re.search(r'\.ident\t"(?:GCC: )?(?:\(.*?\) )?(.*)"', text)
    version = said.group(1).split(" ")[0] if said else ""
    compiler = f"GCC {version}" if 'ident\t"GCC' in text else version
    return f"# {compiler}\n" + "\n".join(inner_loop(text.splitlines())) + "\n"


def inner_loop(lines: Sequence[str]) -> Sequence[str]:
    """The innermost loop with the most instructions on vectors of floats; all code of such, where there is no loop."""
    return max(_loops(lines), key=lambda loop: sum(bool(_VECTORS.match(line)) for line in loop))


def _loops(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """From a label to the jump to it, if no other such jump is between."""
    labels: dict[str, int] = {}
    last = -1
    for number, line in enumerate(lines):
        if label := _LABEL.match(line):
            labels[label.group(1)] = number
        elif (jump := _JUMP.match(line)) and jump.group(1) in labels:
            first = labels[jump.group(1)]
            if first > last:
                yield [line for line in lines[first : number + 1] if not line.startswith("\t.")]
            last = number


if __name__ == "__main__":
    for layer in LAYERS:
        FOLDER.joinpath(f"{layer}.s").write_text(stored_assembly(layer), encoding="utf-8")
