"""fold_cast, unfold_cast and fold_offset: quantized products as payloads say them, down to the bytes."""

from __future__ import annotations

import pytest

from tests.transform.payloads import MM, RELU, Sizes, check, refusal, run

SIZES: tuple[Sizes, ...] = ({"M": 0, "N": 3, "K": 5}, {"M": 4, "N": 3, "K": 0}, {"M": 5, "N": 7, "K": 9})
HEAD = "symbols [M: 0.., N: 0.., K: 0..]"
QUANTIZED = f"""func @q(%x: tensor<[M]x[K]xui8>, %w: tensor<[K]x[N]xsi8>, %zx: tensor<[M]xsi32>, %zw: tensor<[N]xsi32>) -> tensor<[M]x[N]xsi32> {HEAD} {{
  %xw = tcp.cast(%x) : tensor<[M]x[K]xsi32>
  %zxs = ZX : tensor<[M]x[K]xsi32>
  %xo = tcp.sub(%xw, %zxs) : tensor<[M]x[K]xsi32>
  %ww = tcp.cast(%w) : tensor<[K]x[N]xsi32>
  %zws = ZW : tensor<[K]x[N]xsi32>
  %wo = tcp.add(%zws, %ww) : tensor<[K]x[N]xsi32>
  %mm = tcp.matmul(%xo, %wo) : tensor<[M]x[N]xsi32>
  tcp.return(%mm)
}}
"""  # noqa: E501
NUMBER, ROWS, COLUMNS = "tcp.fill {value = 7}", "tcp.broadcast(%zx) {dims = [0]}", "tcp.broadcast(%zw) {dims = [1]}"
FOLD = "fold_offset(mm.lhs)\nfold_cast(mm.lhs)\nfold_offset(mm.rhs)\nfold_cast(mm.rhs)"
HALVES = """func @h(%x: tensor<[M]x[K]xbf16>, %w: tensor<[K]x[N]xbf16>) -> tensor<[M]x[N]xf32> symbols [M: 0.., N: 0.., K: 0..] {
  %xw = tcp.cast(%x) : tensor<[M]x[K]xf32>
  %ww = tcp.cast(%w) : tensor<[K]x[N]xf32>
  %mm = tcp.matmul(%xw, %ww) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""  # noqa: E501


def quantized(of_rows: str, of_columns: str) -> str:
    return QUANTIZED.replace("ZX", of_rows).replace("ZW", of_columns)


@pytest.mark.parametrize("of_columns", [NUMBER, COLUMNS])
@pytest.mark.parametrize("of_rows", [NUMBER, ROWS])
def test_down_to_the_bytes(of_rows: str, of_columns: str) -> None:
    done = check(quantized(of_rows, of_columns), MM + FOLD, SIZES)
    assert "tcp.matmul(%x, %w)" in done.module.text()


def test_the_rest_is_epilogue() -> None:
    body = MM + FOLD + "\nlet last = epilogue(mm)\nlet j, i = tile(last, [d0: 4, d1: 4])\nfuse(mm, into: i)"
    check(quantized(NUMBER, COLUMNS), body, SIZES)


def test_halves() -> None:
    done = check(HALVES, MM + "fold_cast(mm.lhs)\nfold_cast(mm.rhs)", SIZES)
    assert "tcp.matmul(%x, %w)" in done.module.text()


ROUNDED = """func @r(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xbf16>) -> tensor<[M]x[N]xf32> symbols [M: 0.., N: 0.., K: 0..] {
  %xn = tcp.cast(%x) : tensor<[M]x[K]xbf16>
  %mm = tcp.matmul(%xn, %w) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""  # noqa: E501


def test_a_cast_that_rounds_is_left_out_where_that_is_said() -> None:
    assert refusal(ROUNDED, MM + "fold_cast(mm.lhs)").message == "the factor %xn is not widened by a cast"
    assert "tcp.matmul(%x, %w)" in run(ROUNDED, MM + "fold_cast(mm.lhs, rounds: true)").module.text()


NARROW = HALVES.replace("%xw, %ww", "%x, %w")
BYTES = quantized(NUMBER, NUMBER).replace("%xo, %wo", "%x, %w")


@pytest.mark.parametrize("factor", ["lhs", "rhs"])
@pytest.mark.parametrize(("payload", "dtype"), [(NARROW, "f32"), (NARROW, "f64"), (BYTES, "si16"), (BYTES, "f32")])
def test_a_factor_is_widened_before_it_is_multiplied(payload: str, dtype: str, factor: str) -> None:
    done = check(payload, MM + f"let wide = unfold_cast(mm.{factor}, to: {dtype})\ntile(wide, [d0: 4])", SIZES)
    assert f"%mm.{factor}.wide" in done.module.text()


def test_a_widened_factor_is_packed() -> None:
    body = """let wide = unfold_cast(mm.rhs, to: f32)
    let kc = tile(mm, [k: 8])
    let jr, ir = tile(mm, [n: 4, m: 4], tail: pad)
    let bp = pack(mm.rhs, [k, n], at: kc)
    fuse(wide, into: bp)
    """
    done = check(NARROW, MM + body, SIZES)
    assert "= tcp.cast(%w.p)" in done.module.text()


def test_unfold_cast_is_the_inverse_of_fold_cast() -> None:
    done = check(NARROW, MM + "unfold_cast(mm.lhs, to: f32)\nfold_cast(mm.lhs)", SIZES)
    assert "tcp.matmul(%x, %w)" in done.module.text()


NARROWED = HALVES.replace("xf32>", "xbf16>").replace("%x: tensor<[M]x[K]xbf16>", "%x: tensor<[M]x[K]xf32>")
OF_DEPTH = quantized("tcp.broadcast(%zk) {dims = [1]}", NUMBER).replace("%zx: tensor<[M]", "%zk: tensor<[K]")
COMPUTED = quantized("tcp.cast(%x)", NUMBER)
SUMMED = "%zxs is no zero point: it may differ along a dim that is summed"


@pytest.mark.parametrize(
    ("payload", "statement", "message"),
    [
        (RELU, "fold_cast(mm.lhs)", "the factor %x is not widened by a cast"),
        (RELU, "fold_offset(mm.lhs)", "no zero point is subtracted from the factor %x"),
        (NARROWED, "fold_cast(mm.lhs)", "the factor %xw is not widened by a cast"),
        (OF_DEPTH, "fold_offset(mm.lhs)", SUMMED),
        (COMPUTED, "fold_offset(mm.lhs)", SUMMED),
        (NARROW, "unfold_cast(mm.lhs, to: f16)", "f16 is no wider than the factor %x"),
        (NARROW, "unfold_cast(mm.lhs, to: bf16)", "bf16 is no wider than the factor %x"),
        (BYTES, "unfold_cast(mm.lhs, to: si8)", "si8 is no wider than the factor %x"),
        (RELU, "unfold_cast(mm.out, to: f64)", "the factor of a contraction is an operand, not a value"),
        (quantized(NUMBER, NUMBER), "fold_cast(mm.out)", "the factor of a contraction is an operand, not a value"),
    ],
)
def test_refused(payload: str, statement: str, message: str) -> None:
    assert refusal(payload, MM + statement).message == message


WRAPS = f"""func @w(%x: tensor<[M]x[K]xui8>, %w: tensor<[K]x[N]xsi8>) -> tensor<[M]x[N]xsi8> {HEAD} {{
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xsi8>
  tcp.return(%mm)
}}
"""
WIDENED = WRAPS.replace("  %mm = tcp.matmul(%x,", "  %xf = tcp.cast(%x) : tensor<[M]x[K]xf32>\n  %mm = tcp.matmul(%xf,")


def test_an_integer_that_wraps_around_passes_through_integers_only() -> None:
    """200 in ui8 is -56 in si8; as a float it is saturated to 127."""
    why = "%mm is summed in si8, in which numbers of ui8 wrap around and those of f32 are saturated"
    assert refusal(WRAPS, MM + "unfold_cast(mm.lhs, to: f32)").message == why
    assert refusal(WIDENED, MM + "fold_cast(mm.lhs)").message == why
    check(WRAPS, MM + "unfold_cast(mm.lhs, to: si32)\nunfold_cast(mm.rhs, to: f32)", SIZES)
