"""Maps with an offset: a tile reads its part of the operand, and the operation on tiles reads that from the start."""

from __future__ import annotations

import re

import pytest

import tcpx
from tcpx.payload.diagnostics import TcpxError
from tests.transform.payloads import check, refusal

Y = 'let y = match one "y" in root\n'


def payload(maps: str, kinds: str, operands: str, result: str) -> str:
    """A generic `y` that multiplies its operands, and sums where a dim is `r`; one letter of `kinds` a dim, with its
    extent behind it if that is declared."""
    types = operands.split()
    given = ", ".join(f"%x{k}: tensor<{t}xf32>" for k, t in enumerate(types))
    iterators = ", ".join(
        f'["{name}", "{"reduction" if kind[0] == "r" else "parallel"}"{", " * bool(kind[1:])}{kind[1:]}]'
        for name, kind in _dims(kinds)
    )
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
    return [(next(names[kind[0]]), kind) for kind in re.findall(r"[pr]\d*", kinds)]


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
    assert found.message == "%y reads `i + 1` of %z across its tiles"


MIXED = {
    "two dims": (payload("[30 - i - k], [k], [i]", "pr", "31 5", "26"), "ik"),
    "rises and falls": (payload("[i - k + 4], [k], [i]", "pr", "30 5", "26"), "ik"),
}


@pytest.mark.parametrize("name", MIXED)
def test_a_dim_that_is_read_from_its_end_beside_others_is_not_tiled(name: str) -> None:
    text, dims = MIXED[name]
    for dim in dims:
        for statement in (f"tile(y, [{dim}: 4])", f"tile(y, [{dim}: 3], tail: pad)"):
            found = refusal(text, Y + statement)
            assert "does not grow with" in found.message
            assert found.required == (
                f"maps that are sums of dims times positive numbers, or fall with one dim, to tile `{dim}`"
            )


def test_other_dims_are_tiled_beside_it() -> None:
    check(FALLING["rows"][0], f"{Y}tile(y, [j: 8], tail: peel)")
    check(FALLING["rows"][0], f"{Y}let j = tile(y, [j: 8], tail: pad)\nvectorize(j)")


@pytest.mark.parametrize("tail", ["none", "peel", "pad"])
@pytest.mark.parametrize("name", FALLING)
def test_a_dim_that_is_read_from_its_end_is_tiled(name: str, tail: str) -> None:
    text, dim = FALLING[name]
    check(text, f"{Y}tile(y, [{dim}: 4], tail: {tail})")
    if tail == "pad":
        check(text, f"{Y}let i = tile(y, [{dim}: 8], tail: pad)\nvectorize(i)")


PARTS = {
    "stencil": (payload("[i], [i + 1], [i]", "p", "34 34", "32"), "i"),
    "slice": (payload("[i, j], [i, j]", "pp", "7x40", "7x32"), "ij"),
    "window": (payload("[i + k], [k], [i]", "pr3", "40 7", "31"), "ik"),
}


@pytest.mark.parametrize("tail", ["none", "peel", "pad"])
@pytest.mark.parametrize("name", PARTS)
def test_an_operand_may_be_longer_than_its_dim(name: str, tail: str) -> None:
    text, dims = PARTS[name]
    check(text, f"{Y}tile(y, [{dims[0]}: 5], tail: {tail})")
    if tail != "pad":
        check(text, f"{Y}tile(y, [{', '.join(f'{dim}: 2' for dim in dims)}], tail: {tail})")


def test_a_longer_operand_is_computed_where_it_is_read() -> None:
    text = PARTS["stencil"][0].replace(
        "  %y = tcp.generic(%x0, %x1)", "  %z = tcp.add(%x0, %x1) : tensor<34xf32>\n  %y = tcp.generic(%z, %z)"
    )
    check(text, f'{Y}let i = tile(y, [i: 5])\nfuse(match one "z" in root, into: i)')
    found = refusal(text, f'{Y}let i = tile(match one "z" in root, [d0: 5])\nfuse(y, into: i)')
    assert found.message == "%y reads `i + 1` of %z across its tiles"


def test_the_extent_of_a_reduction_dim_is_declared_where_operands_differ() -> None:
    with pytest.raises(TcpxError) as caught:
        tcpx.parse(payload("[k], [k], []", "r", "40 35", ""))
    assert caught.value.diagnostic.message == "%y (tcp.generic): dim 0 of `operand 1` does not agree with `k`"
    text = payload("[k], [k], []", "r35", "40 35", "")
    check(text, f"{Y}tile(y, [k: 8], tail: peel)")
    check(text, f"{Y}split_reduction(y, k, parts: 3)")
    check(text, f'{Y}tile(y, [k: 4], tail: peel)\nsplit_reduction(y.copy("main"), k, factor: 4)')
    found = refusal(payload("[k], [k], []", "r35", "40 40", ""), f"{Y}specialize(y, to: contract)")
    assert found.notes == ("tcp.contract: takes 40 of `k`, not 35",)


POOLING = payload("[2*i + k, 3*j + 2*l], [i, j]", "ppr3r2", "15x33", "7x11")


@pytest.mark.parametrize(
    "body",
    [
        "tile(y, [i: 2, j: 4], tail: peel)",
        "tile(y, [i: 2, k: 1, l: 1])",
        "let i, j = tile(y, [i: 2, j: 4], tail: pad)\nvectorize(j)",
        "let i, j = tile(y, [i: 2, j: 4], tail: pad)\nlet k, l = tile(y, [k: 1, l: 1])\nvectorize(j)",
        "interchange(y, [k, l, i, j])",
        "let t = transpose_result(y, [j, i])",
        "split_reduction(y, k, parts: 2)",
    ],
)
def test_pooling_declares_its_window(body: str) -> None:
    check(POOLING, Y + body)


def test_a_tile_may_be_cut_from_a_window() -> None:
    check(POOLING, f"{Y}tile(y, [k: 2], tail: pad)")
    check(POOLING, f"{Y}let i, j, k = tile(y, [i: 2, j: 4, k: 2], tail: pad)\nvectorize(j)")


@pytest.mark.parametrize(
    ("index", "found"), [("i - 1", "-1"), ("2*i - 3", "-3"), ("30 - i", "-1"), ("i - 2*k + 1", "-7")]
)
def test_what_lies_before_an_operand_is_not_read(index: str, found: str) -> None:
    with pytest.raises(TcpxError) as caught:
        tcpx.parse(payload(f"[{index}], [k], [i]", "pr", "90 5", "32"))
    error = caught.value.diagnostic
    assert error.message == f"%y (tcp.generic): `{index}` reads before the first element of dim 0 of `operand 0`"
    assert (error.found or "").split(",")[0] == found


def test_what_lies_behind_an_operand_is_not_read() -> None:
    with pytest.raises(TcpxError) as caught:
        tcpx.parse(payload("[40 - i], [i]", "p", "32", "32"))
    assert caught.value.diagnostic.required == "at least 41, for `40 - i`"


def reading(shape: str, iterators: str, maps: str, result: str, symbols: str = "") -> str:
    """A sum of what one operand holds at these places."""
    return f"""func @f(%x: tensor<{shape}xf32>) -> tensor<{result}xf32> {symbols} {{
  %y = tcp.generic(%x) {{iterators = [{iterators}], maps = [{maps}], combiner = "tcp.add"}} ({{ (%e: f32, %acc: f32):
    %s = tcp.add(%acc, %e) : f32
    tcp.yield(%s)
  }}) : tensor<{result}xf32>
  tcp.return(%y)
}}
"""


WINDOW = '["i", "parallel"], ["k", "reduction", 3]'
NOTHING = '["i", "parallel"], ["k", "reduction", 0]'
READS_NOTHING = {
    "a window longer than its operand": reading("[N]", WINDOW, "[i + k], [i]", "[max(0, N - 2)]", "symbols [N: 0..]"),
    "of steps of two": reading("[N]", WINDOW, "[2*i + k], [i]", "[max(0, floordiv(N - 1, 2))]", "symbols [N: 0..]"),
    "beside another dim": reading(
        "[M]x[N]",
        f'["c", "parallel"], {WINDOW}',
        "[c, i + k], [c, i]",
        "[M]x[max(0, N - 2)]",
        "symbols [M: 0.., N: 0..]",
    ),
    "a reduction": reading(
        "[N]", '["i", "parallel"], ["k", "reduction", max(0, N - 5)]', "[i + k], [i]", "6", "symbols [N: 0..]"
    ),
    "before the operand": reading("4", NOTHING, "[i + k - 1], [i]", "4"),
    "behind the operand": reading("4x3", NOTHING, "[i, 7], [i]", "4"),
    "a result": reading("1", '["i", "parallel", 0], ["k", "reduction", 3]', "[i + k], [i]", "0"),
    "in any order": reading("0", '["k", "reduction", 0]', "[max(k, k)], []", "").replace("tensor<xf32>", "tensor<f32>"),
}


TILES = ("", "[i: 4]", "[k: 1]", "[k: 2]", "[i: 4, k: 1]", "[k: 2, i: 4]")


@pytest.mark.parametrize(
    ("name", "tiles"),
    [(name, tiles) for name, text in READS_NOTHING.items() for tiles in TILES if "i" not in tiles or '"i"' in text],
)
def test_where_there_is_no_iteration_nothing_is_read(name: str, tiles: str) -> None:
    """No operand is too short for it."""
    text = READS_NOTHING[name]
    sizes = [{"M": m, "N": n} for m, n in ((0, 4), (2, 0), (2, 1), (1, 2), (2, 3), (2, 5), (1, 6), (2, 12))]
    check(text, f"{Y}tile(y, {tiles})" if tiles else "", sizes if "symbols" in text else [{}])


@pytest.mark.parametrize("tail", ["pad", "peel"])
@pytest.mark.parametrize("name", ["a window longer than its operand", "of steps of two"])
def test_windows_of_a_result_that_may_be_empty_are_vectorized(name: str, tail: str) -> None:
    vectors = "\nvectorize(i)" if tail == "pad" else ""
    sizes = [{"N": n} for n in (0, 1, 2, 3, 9, 17)]
    check(READS_NOTHING[name], f"{Y}let i = tile(y, [i: 4], tail: {tail}){vectors}", sizes)


def test_what_is_too_long_by_one_is_refused_also_where_it_may_be_empty() -> None:
    with pytest.raises(TcpxError) as caught:
        tcpx.parse(READS_NOTHING["a window longer than its operand"].replace("N - 2", "N - 1"))
    assert caught.value.diagnostic.message == "%y (tcp.generic): dim 0 of `operand 0` does not agree with `i + k`"


def test_a_declared_reduction_of_nothing_does_not_start_with_a_tile() -> None:
    """What the loop reads is there where it has no iteration; only the declared extent says that there is nothing."""
    symbolic = """func @f(%q: tensor<[N]xf32>, %x: tensor<4xf32>) -> tensor<4xf32> symbols [N: 0..64 multiple_of 2] {
  %y = tcp.generic(%x) {iterators = [["i", "parallel"], ["r", "reduction", N]], maps = [[i], [i]],
      combiner = "tcp.add"} ({ (%e: f32, %acc: f32):
    %s = tcp.add(%acc, %e) : f32
    tcp.yield(%s)
  }) : tensor<4xf32>
  tcp.return(%y)
}
"""
    started = "tile(y, [r: 2])\nfuse(y.start, into: y.loop(r))"
    assert "may have no iteration" in refusal(symbolic, Y + started).message
    parts = payload("[i], [i]", "pr4", "8", "8").replace('"k"', '"r"')
    assert "may have no iteration" in refusal(parts, f"{Y}split_reduction(y, r, parts: 3)\n{started}").message
    check(payload("[i, k], [i]", "pr4", "8x4", "8"), f"{Y}tile(y, [k: 2])\nfuse(y.start, into: y.loop(k))")


@pytest.mark.parametrize("read", ["mod(k, 2)", "floordiv(k, 4)"])
def test_a_dim_that_operands_have_by_digits_alone_is_not_padded(read: str) -> None:
    found = refusal(payload(f"[i, {read}], [i]", "pr3", "4x2", "4"), f"{Y}split_reduction(y, k, factor: 2)")
    assert found.message == "`k` of %y cannot be padded to whole rounds of 2"
    assert (found.found or "").endswith(f"`in0` without `k` alone: {read}")


def test_an_operand_shorter_than_its_radix_is_read_whole() -> None:
    check(payload("[i, mod(k, 4)], [i]", "pr3", "5x3", "5"), f"{Y}pad(y, [i: 8])")


NO_LIST = "the attribute `iterators` is not a list of names with their kinds"


@pytest.mark.parametrize(
    ("iterators", "message"),
    [
        ('["i", "parallel"], ["i", "reduction"]', "two iterators have one name"),
        ('["i", "parallel"], ["k", "reduction", -2]', NO_LIST),
        ('["i", "parallel"], ["k", "reduction", true]', NO_LIST),
    ],
)
def test_iterators_that_are_wrong(iterators: str, message: str) -> None:
    text = payload("[i, k], [i]", "pr", "5x3", "5").replace('["i", "parallel"], ["k", "reduction"]', iterators)
    with pytest.raises(TcpxError) as caught:
        tcpx.parse(text)
    assert caught.value.diagnostic.message == f"%y (tcp.generic): {message}"


BACKWARDS = """func @f(%x: tensor<[N]x[M]xf32>) -> tensor<[N]x[M]xf32> symbols [N: 2..9, M] {
  %y = tcp.generic(%x) {iterators = [["i", "parallel"], ["j", "parallel"]], maps = [[N - 1 - i, j], [i, j]]} ({ (%e: f32):
    tcp.yield(%e)
  }) : tensor<[N]x[M]xf32>
  tcp.return(%y)
}
"""  # noqa: E501


def test_an_operand_of_symbolic_extent_is_read_backwards_as_a_view() -> None:
    with pytest.raises(TcpxError) as caught:
        tcpx.parse(BACKWARDS)
    found = caught.value.diagnostic
    assert (found.message, found.found) == ("%y (tcp.generic): a map uses `N`", "N")
    assert found.required == "numbers and dims (i, j), no sizes"
    assert found.fix == "read it backwards: `tcp.reverse(%x) {dims = [0]}` by `i`"
    text = BACKWARDS.replace("N - 1 - i, j", "i, j").replace("tcp.generic(%x)", "tcp.generic(%r)")
    text = text.replace("  %y =", "  %r = tcp.reverse(%x) {dims = [0]} : tensor<[N]x[M]xf32>\n  %y =")
    sizes = tuple({"N": n, "M": m} for n in (2, 3, 9) for m in (0, 1, 9, 17))
    check(text, f"{Y}let i, j = tile(y, [i: 2, j: 8], tail: pad)\nvectorize(i)", sizes)
    with pytest.raises(TcpxError) as caught:
        tcpx.parse(BACKWARDS.replace("N - 1 - i", "i - N"))
    assert caught.value.diagnostic.fix is None
