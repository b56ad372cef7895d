"""Records what the compiler asks about sizes while tests run: a plugin of pytest.

    TCPX_QUESTIONS=FOLDER python -m pytest -p tests.prover.recorder -n 0 TESTS

Each process writes a file of texts of `tests.prover.asked`, without answers; `python -m tests.prover.recorded FOLDER`
asks them and stores both. A question that is asked to answer another one is not recorded. With TCPX_SEED=1, 2, .. what
tests draw at random is drawn from other seeds.
"""

from __future__ import annotations

import atexit
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

from tcpx.payload.sizes import bounds
from tcpx.payload.sizes.context import Context
from tcpx.payload.sizes.expressions import Dim, Operand, as_dim
from tcpx.payload.sizes.predicates import Comparison, Predicate, Relation
from tcpx.payload.sizes.questions import NOTHING_KNOWN, KnownSymbols
from tests.prover.asked import Bound, Question, UnknownAtomError

FOLDER = Path(os.environ["TCPX_QUESTIONS"])
FOLDER.mkdir(parents=True, exist_ok=True)
FILE = open(FOLDER / f"{os.getpid()}.txt", "w", encoding="ascii", buffering=1 << 13)  # noqa: SIM115 - until the end
atexit.register(FILE.close)
found: set[str] = set()


class _OtherSeeds(random.Random):
    """Draws other numbers than those of the seed that is given."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed + 1_000_003 * int(os.environ["TCPX_SEED"]))


if "TCPX_SEED" in os.environ:
    random.Random = _OtherSeeds


class _Depth:
    """How many questions are being answered."""

    now = 0


def _note(question: Question, known: KnownSymbols = NOTHING_KNOWN) -> None:
    try:
        text = question.text(known)
    except UnknownAtomError:
        return
    if text not in found:
        found.add(text)
        FILE.write(f"{text}\n")


def _recording(real: Callable, note: Callable) -> Callable:
    def ask(*args: object) -> object:
        if _Depth.now == 0:
            note(*args)
        _Depth.now += 1
        try:
            return real(*args)
        finally:
            _Depth.now -= 1

    return ask


def _comparing(op: Relation) -> Callable:
    def note(a: Operand, b: Operand, known: KnownSymbols = NOTHING_KNOWN) -> None:
        if not (isinstance(a, int) and isinstance(b, int)):
            _note(Question(Comparison(op, as_dim(a), as_dim(b))), known)

    return note


def _bounding(word: Bound) -> Callable:
    def note(d: Operand, known: KnownSymbols = NOTHING_KNOWN) -> None:
        if not isinstance(d, int):
            _note(Question((word, as_dim(d))), known)

    return note


def _conditions(context: Context) -> tuple[Comparison, ...]:
    return context._holding.comparisons


def _decided(context: Context, asked: Comparison) -> None:
    if not (isinstance(asked.lhs, int) and isinstance(asked.rhs, int)):
        _note(Question(asked, _conditions(context)))


def _bounded(word: Bound) -> Callable:
    def note(context: Context, d: Dim) -> None:
        if not isinstance(d, int):
            _note(Question((word, d), _conditions(context)))

    return note


def _allowed(context: Context, condition: Predicate) -> None:
    for comparison in condition.comparisons:
        _decided(context, comparison)


FUNCTIONS = {
    "is_less_equal": _comparing("<="),
    "is_less": _comparing("<"),
    "is_equal": _comparing("=="),
    "lower_bound": _bounding("lower"),
    "upper_bound": _bounding("upper"),
    "known_divisor": _bounding("divisor"),
}
METHODS = {
    "_decide": _decided,
    "lower_bound": _bounded("lower"),
    "upper_bound": _bounded("upper"),
    "allows": _allowed,
}


def _install() -> None:
    for name, note in FUNCTIONS.items():
        real = getattr(bounds, name)
        recording = _recording(real, note)
        for module in [m for key, m in sys.modules.items() if key.partition(".")[0] == "tcpx"]:
            for own in [key for key, value in vars(module).items() if value is real]:
                setattr(module, own, recording)
    for name, note in METHODS.items():
        setattr(Context, name, _recording(getattr(Context, name), note))


_install()
