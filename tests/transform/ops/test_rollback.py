"""A failure at any change a transform makes, rolled back, leaves the payload byte-identical."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tcpx.payload.comparison import structurally_equal
from tcpx.payload.diagnostics import ScheduleError
from tcpx.payload.ir import Operation
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.text.parser import parse
from tcpx.payload.verifier import verify_module
from tests.transform.payloads import MM, RELU, SOFTMAX, run

R = 'let r = match one "r" in root\n'
NEST = "let kc = tile(mm, [k: 4])\nlet j, i = tile(mm, [n: 8, m: 6], tail: pad)\nlet k = tile(mm, [k: 1])\n"
DEAD = RELU.replace(
    "  tcp.return", "  %d = tcp.add(%r, %r) : tensor<[M]x[N]xf32>\n  %e = tcp.add(%r, %r) : tensor<[M]x[N]xf32>\n  tcp.return"
)
STEPS: dict[str, tuple[str, str, str]] = {
    "tile": (RELU, MM, "tile(mm, [m: 6, k: 2], tail: peel)"),
    "fuse": (RELU, MM + R + NEST, "fuse(r, into: i)"),
    "fuse a start": (RELU, MM + NEST, "fuse(mm.start, into: i)"),
    "fuse a producer": (RELU, MM + R + "let i = tile(r, [d0: 4])\n", "fuse(mm, into: i)"),
    "pack": (RELU, MM + NEST, "pack(mm.rhs, [k, n], at: kc)"),
    "pad": (RELU, MM + "let i = tile(mm, [m: 6])\n", "pad(mm, [m: 6])"),
    "vectorize": (RELU, MM + NEST, "vectorize(i)"),
    "hoist_accumulator": (RELU, MM + NEST + "vectorize(i)\n", "hoist_accumulator(mm, out_of: k)"),
    "prefetch": (RELU, MM + NEST, "prefetch(mm.out, at: i, for: write)"),
    "peel": (RELU, MM + NEST, "peel(i)"),
    "split": (RELU, MM + NEST, "split(kc, at: 4)"),
    "unroll": (RELU, MM + NEST + "peel(kc)\n", 'unroll(k.copy("main"), factor: 2)'),
    "interchange": (RELU, MM, "interchange(mm, [k, m, n])"),
    "generalize": (RELU, MM, "generalize(mm)"),
    "specialize": (RELU, MM, "specialize(mm, to: contract)"),
    "decompose": (SOFTMAX, "", 'decompose(match one "y" in root)'),
    "parallelize": (RELU, MM + "let i = tile(mm, [m: 6])\n", "parallelize(i)"),
    "canonicalize": (DEAD, "", "canonicalize(root)"),
    "cse": (DEAD, "", "cse(root)"),
    "dce": (DEAD, "", "dce(root)"),
    "lower_vectors": (RELU, MM + NEST + "vectorize(i)\n", "lower_vectors(i)"),
}
MOST = 12
"""Places of failure tried per transform, spread over its changes."""


class PlantedError(RuntimeError):
    """The failure."""


class Planted:
    """Counts the changes of a rewriter while armed, and fails after a given one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen, self.fail_after, self.armed = 0, 0, False
        real = Rewriter._did

        def did(rewriter: Rewriter, op: Operation | None, undo: Callable[[], None]) -> None:
            real(rewriter, op, undo)
            if self.armed:
                self.seen += 1
                if self.seen == self.fail_after:
                    raise PlantedError(f"after change {self.seen}")

        monkeypatch.setattr(Rewriter, "_did", did)


@pytest.mark.parametrize("name", STEPS)
def test_rolled_back(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    payload, before, step = STEPS[name]
    planted = Planted(monkeypatch)
    statements = len([line for line in before.splitlines() if "match" not in line])

    def attempt(fail_after: int) -> tuple[str, str]:
        """The payload before the step, and after it or its failure."""
        module = parse(payload)
        texts = [module.text()]
        planted.seen, planted.fail_after, planted.armed = 0, fail_after, statements == 0

        def on_step(_: object) -> None:
            texts.append(module.text())
            planted.armed = len(texts) == statements + 1

        # `try` keeps the payload from before the step, so that it can be looked at
        try:
            run(module, f"{before}try {{ {step} }}", on_step)
        except ScheduleError as error:
            assert "PlantedError" in str(error.diagnostic.found)
            planted.armed = False
            verify_module(module)
            assert structurally_equal(module, parse(payload)) is None
            return parse(payload).text(), module.text()
        planted.armed = False
        return texts[statements], module.text()

    untouched, changed = attempt(0)
    total = planted.seen
    assert total > 0
    assert untouched != changed
    for fail_after in sorted({1, total, *range(1, total + 1, max(1, total // MOST))}):
        left, right = attempt(fail_after)
        assert left == right, fail_after
