"""Questions with the answers that were recorded, a line each: `TEXT | ANSWER`, compressed.

`recorded.txt.xz` has what the compiler asked while tests ran (`recorder.py`), `nonlinear.txt.xz` random questions of
`nonlinear.py`. To record anew:

    python -m tests.prover.recorded FOLDER      what a recorder wrote to a folder
    python -m tests.prover.recorded             the random ones
"""

from __future__ import annotations

import lzma
import random
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.prover import nonlinear
from tests.prover.asked import Answer, parsed

HERE: Final = Path(__file__).parent
RECORDED: Final = HERE / "recorded.txt.xz"
NONLINEAR: Final = HERE / "nonlinear.txt.xz"
MOST_RECORDED, MOST_NONLINEAR = 200_000, 5_000
ORDERS: Final = 2
"""Times that a text is read, after which few change."""
LONGEST: Final = 1500
"""Characters of a question that is stored."""


def read(path: Path) -> Sequence[tuple[str, Answer]]:
    """The texts of questions, with the answers."""
    lines = lzma.decompress(path.read_bytes()).decode("ascii").splitlines()
    return [(text.rstrip(), _answer(answer.strip())) for text, _, answer in (line.rpartition("|") for line in lines)]


def write(path: Path, texts: Iterable[str]) -> None:
    """Ask all, and store them with the answers."""
    lines = [f"{text}| {parsed(text).answer()}" for text in texts]
    content = "\n".join(lines).encode("ascii")
    path.write_bytes(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))


def read_back(text: str) -> str:
    """The text of the question that a text says: arguments of minima are sorted by names, which reading changes."""
    for _ in range(ORDERS):
        text = parsed(text).text()
    return text


def _answer(text: str) -> Answer:
    words: dict[str, Answer] = {"True": True, "False": False, "None": None}
    return words[text] if text in words else int(text)


def main(folders: Sequence[str]) -> None:
    if folders:
        files = sorted(path for folder in folders for path in Path(folder).glob("*.txt"))
        texts = {text for path in files for text in path.read_text(encoding="ascii").splitlines()}
        texts = sorted({read_back(text) for text in texts if len(text) <= LONGEST})
        chosen = random.Random(0).sample(texts, min(MOST_RECORDED, len(texts)))
        write(RECORDED, sorted(chosen))
        return
    draw = random.Random(0)
    drawn: dict[str, None] = {}
    while len(drawn) < MOST_NONLINEAR:
        drawn.setdefault(read_back(nonlinear.drawn(draw).text()))
    write(NONLINEAR, drawn)


if __name__ == "__main__":
    main(sys.argv[1:])
