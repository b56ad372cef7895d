"""A failure at any change a transform makes, rolled back, leaves the payload byte-identical."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tcpx.payload.comparison import structurally_equal
from tcpx.payload.diagnostics import ScheduleError
from tcpx.payload.ir import Module
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.text.parser import parse
from tcpx.payload.verifier import verify_module
from tcpx.transform.declaration import transforms
from tests.transform.payloads import MM, RELU, SOFTMAX, run

R = 'let r = match one "r" in root\n'
NEST = "let kc = tile(mm, [k: 4])\nlet j, i = tile(mm, [n: 8, m: 6], tail: pad)\nlet k = tile(mm, [k: 1])\n"
DEAD = RELU.replace(
    "  tcp.return",
    "  %d = tcp.add(%r, %r) : tensor<[M]x[N]xf32>\n  %e = tcp.add(%r, %r) : tensor<[M]x[N]xf32>\n  tcp.return",
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
    "lower_vectors": (RELU, MM + NEST + "vectorize(i)\nhoist_accumulator(mm, out_of: k)\n", "lower_vectors(i)"),
    "bufferize": (RELU, MM + NEST, "bufferize(root)"),
    "select_instructions": (
        RELU,
        MM + NEST + "vectorize(i)\nhoist_accumulator(mm, out_of: k)\nbufferize(root)\nlower_vectors(root)\n",
        "select_instructions(root)",
    ),
    "plan_memory": (RELU, MM + NEST + "bufferize(root)\n", "plan_memory(root)"),
    "specialize when": (RELU, MM, "specialize mm when size(mm.m) < 4 { interchange(mm, [k, m, n]) } else { }"),
}
INSPECTION = {"emit_remark", "print"}
CHANGES = (
    "insert", "erase", "move", "clone", "set_operand", "set_operands", "replace_uses", "replace_op", "set_attribute",
    "set_type", "add_result", "add_block_arg", "remove_result", "remove_block_arg", "substitute", "set_block_ops",
    "set_origins", "continue_as", "extend_copy_path", "fresh_name",
)  # fmt: skip
MOST = 12
"""Places of failure tried per transform, spread over its changes."""


class PlantedError(RuntimeError):
    """The failure."""


class Planted:
    """Counts the changes of a rewriter while armed, and fails behind a given one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen, self.fail_after, self.armed, self.depth = 0, 0, False, 0
        for name in CHANGES:
            monkeypatch.setattr(Rewriter, name, self.wrapped(getattr(Rewriter, name)))

    def wrapped(self, change: Callable[..., object]) -> Callable[..., object]:
        """A change that may fail behind itself; changes it is made of are not counted."""

        def changed(*args: object, **options: object) -> object:
            self.depth += 1
            try:
                made = change(*args, **options)
            finally:
                self.depth -= 1
            if self.armed and self.depth == 0:
                self.seen += 1
                if self.seen == self.fail_after:
                    raise PlantedError(f"behind change {self.seen}")
            return made

        return changed


def test_every_transform_is_tried() -> None:
    assert set(transforms()) - INSPECTION <= set(STEPS)


@pytest.mark.parametrize("name", STEPS)
def test_rolled_back(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    payload, before, step = STEPS[name]
    planted = Planted(monkeypatch)
    statements = len([line for line in before.splitlines() if "match" not in line])

    def attempt(module: Module, fail_after: int) -> None:
        """Run the schedule, with a failure behind a change of its last step."""
        planted.seen, planted.fail_after, planted.armed = 0, fail_after, statements == 0
        done: list[object] = []

        def on_step(entry: object) -> None:
            done.append(entry)
            planted.armed = len(done) == statements

        run(module, before + step, on_step)

    attempt(parse(payload), 0)
    total = planted.seen
    assert total > 0
    for fail_after in sorted({1, total, *range(1, total + 1, max(1, total // MOST))}):
        module = parse(payload)
        text = module.text()
        with pytest.raises(ScheduleError) as caught:
            attempt(module, fail_after)
        planted.armed = False
        assert "PlantedError" in str(caught.value.diagnostic.found)
        assert module.text() == text, fail_after
        verify_module(module)
        assert structurally_equal(module, parse(payload)) is None
