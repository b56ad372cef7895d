"""Five payloads whose recipes stand in a random order, the first of them taken: what the tuner starts from there."""

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import tcpx
from tcpx.installed import LIBRARY

FOLDER: Final = "shuffled"
_CHOICE: Final = re.compile(
    r"^( *)tune (\w+) = [^{]*\{\n((?:\1  \w+(?: where [^\n]*)? +=> \{[^\n]*\}\n)+)\1\}", re.MULTILINE
)
_FUNC: Final = "func @f({arguments}) -> {result} {{\n  %y = {operation} : {result}\n  tcp.return(%y)\n}}\n"
_PRODUCTS: Final = ((1024, 1024, 1024), (32, 1024, 1024), (127, 1021, 509))
"""m x n x k."""
_SQUARES: Final = {"rows": "tcp.softmax(%x) {dim = 1}", "transpose": "tcp.transpose(%x) {permutation = [1, 0]}"}


def shuffled_default(folder: Path, seed: int) -> tcpx.Schedule:
    """The default schedule with the alternatives of each `tune` by name in a random order, and no default but the
    first of them: nothing is known of what costs what. Written into a folder that is empty."""
    generator = random.Random(seed)
    library = LIBRARY
    files = [library / "default.tcps", *sorted((library / "lib").glob("*.tcps"))]
    (folder / FOLDER).mkdir()
    count = 0
    for file in files:
        text, changed = _CHOICE.subn(lambda found: _shuffled(found, generator), file.read_text(encoding="utf-8"))
        count += changed
        text = text.replace('import "lib/', f'import "{FOLDER}/')
        place = folder if file.parent == library else folder / FOLDER
        (place / file.name).write_text(text, encoding="utf-8")
    if not count:
        raise ValueError("required a choice between recipes in the library, found none")
    return tcpx.load_schedule((folder / "default.tcps").rename(folder / "from_scratch.tcps"))


def payloads() -> Iterator[tuple[str, tcpx.Module]]:
    """Three products, rows and a transpose, with their names."""
    for m, n, k in _PRODUCTS:
        arguments = f"%x: tensor<{m}x{k}xf32>, %w: tensor<{k}x{n}xf32>"
        text = _FUNC.format(arguments=arguments, result=f"tensor<{m}x{n}xf32>", operation="tcp.matmul(%x, %w)")
        yield f"product {m}x{n}x{k}", tcpx.parse(text)
    for name, operation in _SQUARES.items():
        square = "tensor<1024x1024xf32>"
        yield (
            f"{name} 1024x1024",
            tcpx.parse(_FUNC.format(arguments=f"%x: {square}", result=square, operation=operation)),
        )


def _shuffled(found: re.Match[str], generator: random.Random) -> str:
    indent, name, options = found.groups()
    lines = options.splitlines(keepends=True)
    return f"{indent}tune {name} {{\n{''.join(generator.sample(lines, len(lines)))}{indent}}}"
