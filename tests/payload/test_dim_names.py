"""Dims that the payload names: in schedules, in loops, through every kind of operation whose dims else have numbers."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.interfaces import IteratorKind, Structured, Tileable
from tcpx.payload.ir import DIM_NAMES
from tcpx.payload.ops.generic import positions_of_sizes
from tcpx.payload.text.parser import parse
from tcpx.payload.traits.dims import has_numbered_dims
from tests.comparison import structurally_equal
from tests.nets.cases import check_module, trials_of
from tests.nets.payloads import WITHOUT_VALUE, RandomPayload
from tests.nets.structures import payload_classes

NUMBERED = sorted(
    opcode
    for opcode, cls in payload_classes().items()
    if issubclass(cls, Tileable) and has_numbered_dims(cls) and opcode not in WITHOUT_VALUE
)
TEXT = """func @f(%x: tensor<[N]x8xf32>, %b: tensor<8xf32>) -> (tensor<[N]x8xf32>, tensor<[N]xf32>) symbols [N] {
  %y = tcp.add(%x, broadcast(%b, [1])) {dim_names = ["row", "col"]} : tensor<[N]x8xf32>
  %s = tcp.reduce_sum(%y) {dims = [1], dim_names = ["row", "col"]} : tensor<[N]xf32>
  tcp.return(%y, %s)
}
"""
SCHEDULE = """language 1
schedule s(root: func) {
  let y = match one elementwise in root where size(it.col) == 8
  let s = match one "s" in root
  let i, j = tile(y, [row: 4, col: 8], tail: pad)
  vectorize(i)
  let k, l = tile(s, [row: 3, col: 2])
  require s.loop(col) == l
}
"""


def test_schedules_say_the_names() -> None:
    module = parse(TEXT)
    assert module.text() == TEXT
    run = tcpx.apply_schedule(module, tcpx.parse_schedule(SCHEDULE), target=tcpx.load_target("x86_avx512"))
    text = run.module.text()
    assert "%y/row1 in 0 to N step 4" in text
    assert "%s/col1 in 0 to 8 step 2" in text
    assert structurally_equal(run.module, parse(text)) is None
    x, b = np.random.default_rng(0).random((7, 8), np.float32), np.arange(8, dtype=np.float32)
    for schedule in (tcpx.parse_schedule(SCHEDULE), None):
        found = tcpx.compile(module, schedule, target="generic")(x, b)
        assert isinstance(found, tuple)
        for have, want in zip(found, tcpx.evaluate(module, x, b), strict=True):
            np.testing.assert_allclose(np.asarray(have, np.float64), np.asarray(want, np.float64), rtol=1e-6)


def test_numbers_go_on_to_say_the_dims() -> None:
    """A recipe of a library knows no names."""
    target, numbers = tcpx.load_target("generic"), SCHEDULE.replace("row", "d0").replace("col", "d1")
    runs = [tcpx.apply_schedule(parse(TEXT), tcpx.parse_schedule(text), target=target) for text in (SCHEDULE, numbers)]
    assert runs[0].module.text() == runs[1].module.text()
    with pytest.raises(tcpx.TcpxError) as caught:
        tcpx.apply_schedule(parse(TEXT), tcpx.parse_schedule(SCHEDULE.replace("[row: 3", "[d2: 3")), target=target)
    assert "row, col" in caught.value.diagnostic.render()


@pytest.mark.parametrize(
    ("names", "message", "required"),
    [
        ('["row"]', "each dim has a name", "2 names, one for each of d0, d1"),
        ('["row", "row"]', "the attribute `dim_names` is of another kind", None),
        ('["row", "a b"]', "the attribute `dim_names` is of another kind", None),
        ("[0, 1]", "the attribute `dim_names` is of another kind", None),
        ('"row"', "the attribute `dim_names` is of another kind", None),
    ],
)
def test_refused(names: str, message: str, required: str | None) -> None:
    text = TEXT.replace(
        '{dim_names = ["row", "col"]} : tensor<[N]x8xf32>', f"{{dim_names = {names}}} : tensor<[N]x8xf32>"
    )
    with pytest.raises(tcpx.TcpxError) as caught:
        parse(text)
    found = caught.value.diagnostic
    assert found.message == f"%y (tcp.add): {message}"
    assert found.payload is not None
    assert found.payload.line == 2
    assert required is None or found.required == required


def test_products_have_names_of_their_own() -> None:
    text = """func @f(%x: tensor<4x5xf32>, %w: tensor<5x6xf32>) -> tensor<4x6xf32> {
  %y = tcp.matmul(%x, %w) {dim_names = ["a", "b", "c"]} : tensor<4x6xf32>
  tcp.return(%y)
}
"""
    with pytest.raises(tcpx.TcpxError) as caught:
        parse(text)
    assert caught.value.diagnostic.message == "tcp.matmul has no attribute `dim_names`"


@pytest.mark.parametrize("opcode", NUMBERED)
def test_every_operation_with_numbered_dims(opcode: str) -> None:
    """Tiled by a name, generalized, and computed as before."""
    for seed in range(40):
        drawn = RandomPayload(seed, most=3, opcodes=(opcode, opcode, "tcp.add")).make()
        module = parse(drawn.text(), constants=drawn.constants)
        found = [op for op in module.main.walk() if op.opcode == opcode and isinstance(op, Tileable) and op.iterators()]
        if not found:
            continue
        op = found[0]
        names = [f"n{k}x" for k in range(len(op.iterators()))]
        op.attributes[DIM_NAMES] = tuple(names)
        assert [it.name for it in op.iterators()] == names
        again = parse(module.text(), constants=module.constants)
        assert again.text() == module.text()
        trials = trials_of(again, seed)
        op = next(o for o in again.main.walk() if o.name == op.name and isinstance(o, Tileable))
        dim = next((it.name for it in op.iterators() if it.kind is IteratorKind.PARALLEL), None)
        if len(trials) < 2 or dim is None:
            continue
        end = "generalize(x)" if isinstance(op, Structured) and not positions_of_sizes(op) else ""
        lines = [f'let x = match one "{op.name}" in root', f"let i = tile(x, [{dim}: 3])", end]
        text = "language 1\nschedule s(root: func) {\n" + "\n".join(lines) + "\n}"
        run = tcpx.apply_schedule(again, tcpx.parse_schedule(text), target=tcpx.load_target("generic"))
        check_module(run.module, trials)
        return
    raise AssertionError(f"no payload has {opcode} with dims")
