"""A failure behind any journal entry of a transform, rolled back, leaves payload and handles as they were."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tcpx.payload.diagnostics import Diagnostic, Kind, ScheduleError
from tcpx.payload.ir import Module, Operation, defined_by
from tcpx.payload.journal import Journal
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.text.parser import parse
from tcpx.target import load_target
from tcpx.transform.declaration import transforms
from tests.transform.ops.test_fission import SWEEPS
from tests.transform.ops.test_merge import PAIR as TWO_PRODUCTS
from tests.transform.ops.test_parallelize import ROWS as ROWS_OF_A_WHOLE
from tests.transform.ops.test_peel import Y
from tests.transform.ops.test_recognize_mask import ROWS as ROWS_OF_MASKS
from tests.transform.ops.test_recognize_mask import payload as masked
from tests.transform.ops.test_reduce_first import LAST
from tests.transform.ops.test_share import layers
from tests.transform.ops.test_skew import SEIDEL
from tests.transform.ops.test_trim import BEHIND, PADDED, ROWS_IN_TILES
from tests.transform.ops.test_winograd import ROWS as CONVOLUTION
from tests.transform.payloads import INTEGERS, MM, RELU, SOFTMAX, run

ROWS = Path(__file__).parents[1] / "micro_kernels.yaml"
R, V = (f'let {name} = match one "{name}" in root\n' for name in "rv")
NEST = "let kc = tile(mm, [k: 4])\nlet j, i = tile(mm, [n: 8, m: 6], tail: pad)\nlet k = tile(mm, [k: 1])\n"
DEAD = RELU.replace(
    "  tcp.return",
    "  %d = tcp.add(%r, %r) : tensor<[M]x[N]xf32>\n  %e = tcp.add(%r, %r) : tensor<[M]x[N]xf32>\n  tcp.return",
)
BYTES = INTEGERS.replace(
    "  %mm = tcp.contract(%x, %w)",
    """  %a = tcp.cast(%x) : tensor<[M]x[K]xsi32>
  %b = tcp.cast(%w) : tensor<[K]x[N]xsi32>
  %z = tcp.fill {value = 3} : tensor<[K]x[N]xsi32>
  %c = tcp.sub(%b, %z) : tensor<[K]x[N]xsi32>
  %mm = tcp.contract(%a, %c)""",
)
CONSTANT = """\
func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = tcp.fill {value = 2.0} : tensor<4xf32>
  %e = tcp.exp(%two) : tensor<4xf32>
  %r = tcp.mul(%x, %e) : tensor<4xf32>
  tcp.return(%r)
}
"""
STORED = CONSTANT.replace("tcp.fill {value = 2.0}", "tcp.const {value = [0.0, 1.0, 2.0, 3.0]}")
OF_LOGISTIC = """\
func @f(%x: tensor<[M]xf32>) -> tensor<[M]xf32> symbols [M] {
  %s = tcp.sigmoid(%x) : tensor<[M]xf32>
  %y = tcp.mul(%x, %s) : tensor<[M]xf32>
  tcp.return(%y)
}
"""
CALLED = """\
func @main(%x: tensor<[M]xf32>) -> tensor<[M]xf32> symbols [M] {
  %c = tcp.call @f(%x) : tensor<[M]xf32>
  %d = tcp.call @f(%c) : tensor<[M]xf32>
  tcp.return(%d)
}
func @f(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {
  %y = tcp.exp(%x) : tensor<[N]xf32>
  tcp.return(%y)
}
"""
CHAIN = """\
func @chain(%x: tensor<[M]xf32>, %y: tensor<[M]xf32>) -> tensor<[M]xf32> symbols [M] {
  %v0 = tcp.add(%x, %y) : tensor<[M]xf32>
  %v1 = tcp.mul(%v0, %y) : tensor<[M]xf32>
  %v2 = tcp.max(%v1, %y) : tensor<[M]xf32>
  %v3 = tcp.sub(%v2, %y) : tensor<[M]xf32>
  %v4 = tcp.add(%v3, %y) : tensor<[M]xf32>
  %v5 = tcp.mul(%v4, %y) : tensor<[M]xf32>
  %v6 = tcp.max(%v5, %y) : tensor<[M]xf32>
  %v7 = tcp.sub(%v6, %y) : tensor<[M]xf32>
  tcp.return(%v7)
}
"""
TWICE = """\
func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = tcp.fill {value = 2.0} : tensor<4xf32>
  %p = tcp.mul(%x, %two) : tensor<4xf32>
  %q = tcp.mul(%p, %two) : tensor<4xf32>
  tcp.return(%q)
}
"""
PAIR = """\
func @f(%x: tensor<[M]xf32>) -> (tensor<[M]xf32>, tensor<[M]xf32>) symbols [M] {
  %p = tcp.exp(%x) : tensor<[M]xf32>
  %q = tcp.mul(%x, %x) : tensor<[M]xf32>
  tcp.return(%p, %q)
}
"""
PAIR_LOOPS = """\
let p = match one "p" in root
let q = match one "q" in root
let i = tile(p, [d0: 4])
let j = tile(q, [d0: 4])
"""
P = 'let p = match one "p" in root\n'
SQUARE = """\
func @f(%x: tensor<64x[K]xf32>, %w: tensor<[K]x16xf32>) -> tensor<64x16xf32> symbols [K] {
  %mm = tcp.matmul(%x, %w) : tensor<64x16xf32>
  tcp.return(%mm)
}
"""
ROWS_BELOW_MAXIMA = """\
func @rows(%x: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, N] {
  %m = tcp.reduce_max(%x) {dims = [1]} : tensor<[M]xf32>
  %b = tcp.broadcast(%m) {dims = [0]} : tensor<[M]x[N]xf32>
  %d = tcp.sub(%x, %b) : tensor<[M]x[N]xf32>
  %e = tcp.exp(%d) : tensor<[M]x[N]xf32>
  %l = tcp.reduce_sum(%e) {dims = [1]} : tensor<[M]xf32>
  %c = tcp.broadcast(%l) {dims = [0]} : tensor<[M]x[N]xf32>
  %p = tcp.div(%x, %c) : tensor<[M]x[N]xf32>
  %y = tcp.neg(%p) : tensor<[M]x[N]xf32>
  tcp.return(%y)
}
"""
OF_ROWS = "".join(f'let {name} = match one "{name}" in root\n' for name in "mdelpy")
SUMS_OF_ROWS = OF_ROWS + "let j = tile(l, [d1: 4])\nfuse(e, into: j)\nfuse(d, into: j)\nlet i = tile(m, [d1: 4])\n"
SCAN = """\
func @scan(%x: tensor<[N]xsi32>) -> (tensor<[N]xsi32>, tensor<si32>) symbols [N] {
  %c, %t = tcp.cumsum(%x) {dim = 0} : tensor<[N]xsi32>, tensor<si32>
  tcp.return(%c, %t)
}
"""
ONE_OR_ALL = """\
func @f(%x: tensor<[M]xf32>, %b: tensor<[C]xf32>) -> tensor<[M]xf32> symbols [M, C] {
  %y = tcp.add(%x, expand(%b, [0])) : tensor<[M]xf32>
  tcp.return(%y)
}
"""
COLUMN = """\
func @f(%x: tensor<[M]x7xf32>, %w: tensor<7x1xf32>) -> tensor<[M]x1xf32> symbols [M] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x1xf32>
  tcp.return(%mm)
}
"""
CUBE = """\
func @f(%x: tensor<[M]x7x3xf32>) -> tensor<[M]x7x3xf32> symbols [M] {
  %p = tcp.exp(%x) : tensor<[M]x7x3xf32>
  tcp.return(%p)
}
"""
LONG = """\
func @f(%x: tensor<4096xf32>) -> tensor<4096xf32> {
  %p = tcp.exp(%x) : tensor<4096xf32>
  tcp.return(%p)
}
"""
INVARIANT = """\
func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x16xf32>) -> tensor<[M]x16xf32> symbols [M] {
  %e = tcp.exp(%w) : tensor<64x16xf32>
  %mm = tcp.matmul(%x, %e) : tensor<[M]x16xf32>
  tcp.return(%mm)
}
"""
STEPPED = """\
func @f(%u: tensor<[N]xf32>, %v: tensor<[T]x[N]xf32>) -> tensor<[N]xf32> symbols [N, T] {
  %y = gml_st.for %t in 0 to T step 1 (%d = %u) {
    %w = gml_st.materialize(%v) tile [%t, 0] [1, N] drop [0] : tensor<[N]xf32>
    %b = tcp.add(%d, %w) : tensor<[N]xf32>
    gml_st.yield(%b, %d) full
  } : tensor<[N]xf32>
  tcp.return(%y)
}
"""
WINDOWS = """\
func @f(%x: tensor<32x9x9xf32>, %w: tensor<64x32x3x3xf32>) -> tensor<64x7x7xf32> {
  %y = tcp.generic(%x, %w) {iterators = [["f", "parallel"], ["i", "parallel"], ["j", "parallel"], ["c", "reduction"], ["h", "reduction"], ["k", "reduction"]], maps = [[c, h + i, j + k], [f, c, h, k], [f, i, j]], combiner = "tcp.add"} ({ (%e: f32, %g: f32, %acc: f32):
    %p = tcp.multiply_add(%e, %g, %acc) : f32
    tcp.yield(%p)
  }) : tensor<64x7x7xf32>
  %z = tcp.relu(%y) : tensor<64x7x7xf32>
  tcp.return(%z)
}
"""  # noqa: E501
AROUND = """\
func @f(%x: tensor<[M]x64xf32>) -> tensor<[M]x64xf32> symbols [M] {
  %t = tcp.transpose(%x) {permutation = [1, 0]} : tensor<64x[M]xf32>
  %s = tcp.softmax(%t) {dim = 1} : tensor<64x[M]xf32>
  %y = tcp.transpose(%s) {permutation = [1, 0]} : tensor<[M]x64xf32>
  tcp.return(%y)
}
"""
FUSED = MM + 'let i = tile(mm, [m: 6])\nlet e = match one "e" in root\nfuse(e, into: i)\n'
STEPS: dict[str, tuple[str, str, str]] = {
    "tile": (RELU, MM, "tile(mm, [m: 6, k: 2], tail: peel)"),
    "fuse": (RELU, MM + R + NEST, "fuse(r, into: i)"),
    "fuse a start": (RELU, MM + NEST, "fuse(mm.start, into: i)"),
    "fuse a producer": (RELU, MM + R + "let i = tile(r, [d0: 4])\n", "fuse(mm, into: i)"),
    "fuse_siblings": (PAIR, PAIR_LOOPS, "fuse_siblings(j, into: i)"),
    "fuse_dependent": (ROWS_BELOW_MAXIMA, SUMS_OF_ROWS, "fuse_dependent(j, into: i)"),
    "merge": (TWO_PRODUCTS, P + 'let q = match one "q" in root\n', "merge([p, q], n)"),
    "recognize_mask": (masked(ROWS_OF_MASKS["a window"]), P, "recognize_mask(p)"),
    "recognize": (OF_LOGISTIC, "", "recognize(root)"),
    "sink": (ROWS_BELOW_MAXIMA, OF_ROWS, "sink(p, behind: y)"),
    "scan_in_lanes": (SCAN, 'let c = match one "c" in root\n', "scan_in_lanes(c, d0)"),
    "pack": (RELU, MM + NEST, "pack(mm.rhs, [k, n], at: kc)"),
    "constant_fold": (CONSTANT, "", 'constant_fold(match one "e" in root)'),
    "evaluate_constants": (STORED, "", "evaluate_constants(root)"),
    "pad": (RELU, MM + "let i = tile(mm, [m: 6])\n", "pad(mm, [m: 6])"),
    "vectorize": (RELU, MM + NEST, "vectorize(i)"),
    "hoist_accumulator": (RELU, MM + NEST + "vectorize(i)\n", "hoist_accumulator(mm, out_of: k)"),
    "prefetch": (RELU, MM + NEST, "prefetch(mm.out, at: i, for: write)"),
    "promote": (RELU, MM + "let j = tile(mm, [n: 8])\nlet i = tile(mm, [m: 6])\n", "promote(mm.out, at: j)"),
    "peel": (RELU, MM + NEST, "peel(i)"),
    "peel of borders": (PADDED, Y + "let b = tile(y, [h: 4])\n", "peel(b, borders: true)"),
    "split": (RELU, MM + NEST, "split(kc, at: 4)"),
    "split_reduction": (RELU, MM, "split_reduction(mm, k, parts: 2)"),
    "split_reduction side by side": (RELU, MM, "split_reduction(mm, k, factor: 4)"),
    "reduce_first": (LAST, Y, "reduce_first(y, [k])"),
    "unroll": (RELU, MM + NEST + "peel(kc)\n", 'unroll(k.copy("main"), factor: 2)'),
    "pack by digits": (RELU, MM + NEST, "pack(mm.rhs, [n/4, k, n%4], at: kc)"),
    "fold_cast": (BYTES, MM, "fold_cast(mm.lhs)"),
    "fold_transpose": (
        RELU,
        MM + "transpose_result(mm, [n])\nlet z = match one add in root\n",
        "fold_transpose(z.lhs)",
    ),
    "unfold_cast": (RELU, MM, "unfold_cast(mm.rhs, to: f64)"),
    "fold_offset": (BYTES, MM, "fold_offset(mm.rhs)"),
    "shift_factor": (INTEGERS, MM, "shift_factor(mm.lhs, by: 128, to: ui8)"),
    "interchange": (RELU, MM, "interchange(mm, [k, m, n])"),
    "skew": (RELU, MM + "let k, i = tile(mm, [k: 4, m: 6])\n", "skew(i, factor: 2)"),
    "reorder a band": (SEIDEL, V + "skew(parent(v))\n", "reorder([parent(v), parent(parent(v))])"),
    "parallelize rows of a whole": (ROWS_OF_A_WHOLE["left"], "", 'parallelize(parent(parent(match one "v" in root)))'),
    "fission of a sweep": (
        SWEEPS["what an iteration before wrote"],
        'let v = match one "v" in root\n',
        "fission(parent(v), after: v)",
    ),
    "trim of padding": (PADDED, Y + "let t = tile(y, [h: 1])\nlet k = tile(y, [k: 1])\n", "trim(k, y)"),
    "trim": (BEHIND, ROWS_IN_TILES, "trim(i, m)"),
    "assign_layout": (WINDOWS, "", "assign_layout(root)"),
    "transpose_result": (RELU, MM, "transpose_result(mm, [n])"),
    "generalize": (RELU, MM, "generalize(mm)"),
    "specialize": (RELU, MM, "specialize(mm, to: contract)"),
    "decompose": (SOFTMAX, "", 'decompose(match one "y" in root)'),
    "parallelize": (RELU, MM + "let i = tile(mm, [m: 6])\n", "parallelize(i)"),
    "annotate": (RELU, MM, 'annotate(mm, "hot")'),
    "winograd": (CONVOLUTION, "", 'winograd(match one "y" in root, m: 2)'),
    "cancel_transposes": (AROUND, "", "cancel_transposes(root)"),
    "canonicalize": (DEAD, "", "canonicalize(root)"),
    "cse": (DEAD, "", "cse(root)"),
    "dce": (DEAD, "", "dce(root)"),
    "group": (RELU, MM + R, "group([mm, r], promise: nest)"),
    "isolate": (RELU, MM + "let g = group([mm])\n", "isolate(g)"),
    "dissolve": (RELU, MM + "let g = group([mm])\n", "dissolve(g)"),
    "outline": (RELU, MM + R, "outline([mm, r])"),
    "outline what is equal": (TWICE, P + "outline([p])\n", 'outline([match one "q" in root])'),
    "outline_repeats": (CHAIN, "", "outline_repeats(root, least: 4)"),
    "share": (layers(2), "", "share(match any contract in root)"),
    "clone": (CALLED, 'let c = match one "c" in root\n', "clone(c)"),
    "lower_to": (RELU, MM + "let i, j = tile(mm, [m: 4, n: 16])\n", "lower_to(mm, masked_4x16)"),
    "inline": (RELU, MM + R + "let c = outline([mm, r])\n", "inline(c)"),
    "lower_vectors": (RELU, MM + NEST + "vectorize(i)\nhoist_accumulator(mm, out_of: k)\n", "lower_vectors(i)"),
    "bufferize": (RELU, MM + NEST, "bufferize(root)"),
    "select_instructions": (
        RELU,
        MM + NEST + "vectorize(i)\nhoist_accumulator(mm, out_of: k)\nbufferize(root)\nlower_vectors(root)\n",
        "select_instructions(root)",
    ),
    "plan_memory": (RELU, MM + NEST + "bufferize(root)\n", "plan_memory(root)"),
    "coalesce": (CUBE, P, "coalesce(p)"),
    "coalesce loops": (RELU, R + "let i, j = tile(r, [d0: 3, d1: 5], parallel: true)\n", "coalesce(i)"),
    "fold_unit_dims": (COLUMN, MM, "fold_unit_dims(mm)"),
    "block_steps": (STEPPED, 'let b = match one "b" in root\n', "block_steps(parent(b), 8)"),
    "fission": (INVARIANT, FUSED, "fission(i, after: e)"),
    "normalize": (RELU, MM + "interchange(mm, [k, n, m])\n", "normalize(root)"),
    "fuse_elementwise": (TWICE, P, 'fuse_elementwise([p, match one "q" in root])'),
    "hoist": (INVARIANT, MM + "let i = tile(mm, [m: 6])\nlet b = pack(mm.rhs, [n, k], at: i)\n", "hoist(b, out_of: i)"),
    "licm": (INVARIANT, FUSED, "licm(i)"),
    "reorder": (SQUARE, MM + "let k, i = tile(mm, [k: 8, m: 6])\n", "reorder([i, k])"),
    "stream": (LONG, P + "let i = tile(p, [d0: 16])\n", "stream(i)"),
    "unroll_and_jam": (
        SQUARE,
        MM + "let i = tile(mm, [m: 1])\nlet k = tile(mm, [k: 1])\n",
        "unroll_and_jam(i, factor: 2)",
    ),
    "unswitch": (ONE_OR_ALL, "", "unswitch(root)"),
    "specialize when": (RELU, MM, "specialize mm when size(mm.m) < 4 { interchange(mm, [k, m, n]) } else { }"),
}
INSPECTION = {"assert", "emit_remark", "print", "snapshot", "verify"}


def snapshot(rewriter: Rewriter) -> object:
    """Everything a schedule can see of a payload: text, places, uses in order, handles."""
    module = rewriter.module
    ops = [
        (
            (op, op.parent, op.name, op.origins, op.copy_path, op.location, op.schedule_location),
            (list(op.operands), dict(op.attributes), dict(op.notes)),
            [(value, value.name, value.type, list(value.uses)) for value in defined_by(op)],
        )
        for op in module.walk()
    ]
    handles = {origin: list(held) for origin, held in rewriter.origins.items() if held}
    return module.text(), ops, handles, dict(rewriter.ended), module.next_origin


class Planted:
    """While armed: the tries of a step fail, each behind the journal entry that `behind` has for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.armed, self.from_start, self.entries = False, False, 0
        self.behind: list[int] = []
        self.before: object = None
        self.start = 0
        record, mark, rollback = Journal.record, Journal.mark, Journal.rollback

        def recorded(journal: Journal, undo: Callable[[], None], op: Operation | None = None) -> None:
            record(journal, undo, op)
            if self.armed:
                self.entries += 1
                if self.behind and self.entries == self.behind[0]:
                    raise ScheduleError(Diagnostic(f"planted behind entry {self.entries}", Kind.SILENCEABLE))

        def marked(journal: Rewriter) -> int:
            self.armed = self.armed or self.from_start
            if self.armed and self.before is None:
                self.before, self.start = snapshot(journal), mark(journal)
            return mark(journal)

        def rolled_back(journal: Rewriter, to: int) -> None:
            rollback(journal, to)
            if self.armed and self.entries and to <= self.start:
                assert snapshot(journal) == self.before, f"behind entry {self.entries}"
                self.entries = 0
                del self.behind[:1]

        monkeypatch.setattr(Journal, "record", recorded)
        monkeypatch.setattr(Journal, "mark", marked)
        monkeypatch.setattr(Journal, "rollback", rolled_back)


def test_every_transform_is_tried() -> None:
    assert set(transforms()) - INSPECTION <= set(STEPS)


MOST = 24
"""So many entries of a step are tried of all, and those of its beginning."""


def spread(total: int) -> list[int]:
    """Numbers up to `total`: the first ones, others at even distances, the last one."""
    return sorted({*range(1, min(total, 6) + 1), *(1 + (total - 1) * k // MOST for k in range(MOST + 1))})


@pytest.mark.parametrize("name", STEPS)
def test_rolled_back_behind_journal_entries(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_rollback(name, monkeypatch, spread)


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
def test_rolled_back_behind_every_journal_entry(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_rollback(name, monkeypatch, lambda total: list(range(1, total + 1)))


def check_rollback(name: str, monkeypatch: pytest.MonkeyPatch, chosen: Callable[[int], list[int]]) -> None:
    """A step that fails behind each of the chosen entries, then succeeds, does what it does at once."""
    payload, before, step = STEPS[name]
    target = load_target(ROWS, allow_native=True) if name == "lower_to" else None
    planted = Planted(monkeypatch)
    statements = len([line for line in before.splitlines() if "match" not in line])

    def attempt(behind: list[int]) -> Module:
        """The payload after the step failed behind each of these entries, and a success."""
        planted.armed, planted.entries, planted.before = False, 0, None
        planted.from_start = statements == 0
        planted.behind = list(behind)
        done: list[object] = []

        def on_step(entry: object) -> None:
            done.append(entry)
            planted.armed, planted.from_start = len(done) == statements, False

        tried = f"try {{ {step} }}\n" if step.startswith("specialize mm when") else f"optional {step}\n"
        return run(parse(payload), before + tried * len(behind) + step, on_step, on=target).module

    reference = attempt([])
    total = planted.entries
    assert total > 0
    assert attempt(chosen(total)).text() == reference.text()
    assert not planted.behind, "every chosen entry was reached"
