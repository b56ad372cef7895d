"""Maps with an offset: a tile reads its part of the operand, and the operation on tiles reads that from the start."""

from __future__ import annotations

import pytest

import tcpx
from tcpx.payload.diagnostics import TcpxError
from tests.transform.payloads import check, refusal

Y = 'let y = match one "y" in root\n'


def payload(maps: str, kinds: str, operands: str, result: str) -> str:
    """A generic `y` that multiplies its operands, and sums where a dim is `r`; one letter of `kinds` a dim."""
    types = operands.split()
    given = ", ".join(f"%x{k}: tensor<{t}xf32>" for k, t in enumerate(types))
    iterators = ", ".join(f'["{name}", "{"reduction" if kind == "r" else "parallel"}"]' for name, kind in _dims(kinds))
    elements = ", ".join(f"%e{k}: f32" for k in range(len(types)))
    sums = "r" in kinds
    factors = "%e0, %e1" if len(types) > 1 else "%e0, %e0"
    type_ = f"tensor<{result}xf32>" if result else "tensor<f32>"
    return f"""func @f({given}) -> {type_} {{
  %y = tcp.generic({", ".join(f"%x{k}" for k in range(len(types)))}) {{iterators = [{iterators}], maps = [{maps}]{', combiner = "tcp.add"' if sums else ""}}} ({{ ({elements}{", %acc: f32" if sums else ""}):
    %p = tcp.mul({factors}) : f32
    {"%s = tcp.add(%acc, %p) : f32" if sums else ""}
    tcp.yield({"%s" if sums else "%p"})
  }}) : {type_}
  tcp.return(%y)
}}
"""  # noqa: E501


def _dims(kinds: str) -> list[tuple[str, str]]:
    names = {"p": iter("ij"), "r": iter("kl")}
    return [(next(names[kind]), kind) for kind in kinds]


GROWING = {
    "2*i + 1": (payload("[2*i + 1], [i]", "p", "64", "32"), "i"),
    "i + 2, i + 1": (payload("[i + 2], [i + 1], [i]", "p", "40 40", "31"), "i"),
    "a number": (payload("[3, i + 1], [i]", "p", "4x32", "31"), "i"),
    "window": (payload("[i + k + 1], [k], [i]", "pr", "40 5", "31"), "ik"),
    "strided window": (payload("[2*i + 3*k + 2], [k], [i]", "pr", "90 5", "31"), "ik"),
    "sum": (payload("[k + 3], [k], []", "r", "40 35", ""), "k"),
    "product": (payload("[i, k + 3], [k, j], [i, j]", "ppr", "13x20 17x19", "13x19"), "ijk"),
}
FALLING = {
    "31 - i": (payload("[31 - i], [i]", "p", "32", "32"), "i"),
    "rows": (payload("[7 - i, j + 2], [i, j]", "pp", "8x40", "8x30"), "i"),
    "sum": (payload("[34 - k], [k], []", "r", "40 35", ""), "k"),
}


@pytest.mark.parametrize("tail", ["none", "peel"])
@pytest.mark.parametrize("name", GROWING)
def test_tiles(name: str, tail: str) -> None:
    text, dims = GROWING[name]
    for dim in dims:
        check(text, f"{Y}tile(y, [{dim}: 4], tail: {tail})")
    check(text, f"{Y}tile(y, [{', '.join(f'{dim}: 5' for dim in dims)}], tail: {tail})")


@pytest.mark.parametrize("name", ["2*i + 1", "i + 2, i + 1", "a number", "product"])
def test_padded_tiles_are_vectorized(name: str) -> None:
    text, dims = GROWING[name]
    check(text, f"{Y}tile(y, [{', '.join(f'{dim}: 8' for dim in dims)}], tail: pad)\nvectorize(y.loop({dims[-1]}))")


@pytest.mark.parametrize("name", ["window", "strided window", "sum", "product"])
def test_split_reductions(name: str) -> None:
    text, _ = GROWING[name]
    check(text, f"{Y}split_reduction(y, k, parts: 3)")
    if name in ("sum", "product"):
        check(text, f'{Y}tile(y, [k: 4], tail: peel)\nsplit_reduction(y.copy("main"), k, factor: 4)')


def test_a_producer_with_an_offset_is_fused() -> None:
    text = payload("[2*i + 1], [i]", "p", "64", "32").replace(
        "  tcp.return(%y)", "  %z = tcp.add(%y, %y) : tensor<32xf32>\n  tcp.return(%z)"
    )
    check(text, f'{Y}let i = tile(match one "z" in root, [d0: 5], tail: pad)\nfuse(y, into: i)\nvectorize(i)')


def test_a_consumer_with_an_offset_is_refused() -> None:
    text = payload("[i + 2], [i + 1], [i]", "p", "40 40", "31")
    text = text.replace(
        "  %y = tcp.generic(%x0, %x1)", "  %z = tcp.add(%x0, %x1) : tensor<40xf32>\n  %y = tcp.generic(%z, %z)"
    )
    found = refusal(text, f'{Y}let i = tile(match one "z" in root, [d0: 5])\nfuse(y, into: i)')
    assert found.message == "%y does not use the tile as a box of its own iterations"


@pytest.mark.parametrize("name", FALLING)
def test_a_dim_that_is_read_from_its_end_is_not_tiled(name: str) -> None:
    text, dim = FALLING[name]
    for statement in (f"tile(y, [{dim}: 4])", f"tile(y, [{dim}: 5], tail: pad)"):
        found = refusal(text, Y + statement)
        assert "does not grow with" in found.message
        assert found.required == f"maps that are sums of dims times positive numbers, to tile `{dim}`"


def test_other_dims_are_tiled_beside_it() -> None:
    check(FALLING["rows"][0], f"{Y}tile(y, [j: 8], tail: peel)")
    check(FALLING["rows"][0], f"{Y}let j = tile(y, [j: 8], tail: pad)\nvectorize(j)")


@pytest.mark.parametrize("name", FALLING)
@pytest.mark.xfail(strict=True, raises=TcpxError, reason="a subset in reversed order: one operation protocol")
def test_a_dim_that_is_read_from_its_end_is_tiled(name: str) -> None:
    text, dim = FALLING[name]
    check(text, f"{Y}tile(y, [{dim}: 4])")


PARTS = {
    "stencil": payload("[i], [i + 1], [i]", "p", "34 34", "32"),
    "slice": payload("[i, j], [i, j]", "pp", "7x40", "7x32"),
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.xfail(strict=True, raises=TcpxError, reason="an operand longer than its dim: one operation protocol")
def test_a_bare_dim_reads_a_part_of_an_operand(name: str) -> None:
    tcpx.parse(PARTS[name])


def test_a_bare_dim_reads_all_of_an_operand() -> None:
    for name, part in (("stencil", "(%x0) tile [0] [32]"), ("slice", "(%x0) tile [0, 0] [7, 32]")):
        with pytest.raises(TcpxError) as caught:
            tcpx.parse(PARTS[name])
        assert (
            caught.value.diagnostic.message
            == "%y (tcp.generic): the operands give the result another shape than its type"
        )
        assert f"gml_st.materialize{part}" in (caught.value.diagnostic.fix or "")
    stencil = PARTS["stencil"].replace(
        "%y = tcp.generic(%x0", "%x = gml_st.materialize(%x0) tile [0] [32] : tensor<32xf32>\n  %y = tcp.generic(%x"
    )
    check(stencil, f"{Y}tile(y, [i: 5], tail: peel)")
