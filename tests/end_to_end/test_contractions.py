"""The default schedule takes every contraction: any order of dims, several of each kind, any of them empty."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx import Kernel
from tcpx.payload.constants import Constants
from tcpx.target import Target
from tests.guard_pages import run_guarded
from tests.optional_tools import require_cpu_of

FORMS = (
    "bmk,bkn->bmn",  # batches, and transposed operands and results
    "bmk,bnk->bmn",
    "bkm,bkn->bmn",
    "bkm,bnk->bmn",
    "bmk,bkn->bnm",
    "bmk,kn->bmn",
    "mk,bkn->bmn",
    "abmk,abkn->abmn",
    "abmk,bkn->bamn",
    "thd,uhd->htu",  # attention
    "htu,uhd->thd",
    "bsk,khd->bhsd",
    "bmk,bkn->mn",  # several summed dims
    "ambk,nkb->mn",
    "aibk,kcb->iac",
    "nsk,smpk->pnm",
    "aijklb,jliknb->abn",
    "lk,mkln->mn",
    "mks,kn->mn",  # sums over a dim of one operand
    "nk,smpk->pnm",
    "ms,n->nm",
    "ks,k->",
    "mk,k->m",  # vectors
    "k,kn->n",
    "k,nk->n",
    "km,k->m",
    "bmk,bk->bm",
    "bk,bkn->bn",
    "bk,bk->b",
    "bk,bk->bk",
    "mh,nh->mnh",
    "mkh,nkh->mnh",
    "hmk,hkn->mnh",
    "mkh,knh->mnh",  # side by side in the lanes
    "amkh,kbnh->bamnh",
    "hgmk,kgnh->mghn",
    "ahmk,bhnk->abmnh",
    "hk,nkh->hn",  # vectors, and matrices stored one inside the other
    "hk,knh->nh",
    "kh,hnk->hn",
    "kh,nhk->nh",
    "khn,hk->hn",
    "kh,kh->h",
    "kh,hk->h",
    "hk,kh->h",
    "k,k->",
    "kl,kl->",
    "kl,lk->",
    "m,n->mn",
)
STATIC = {
    "bmk,bkn->bmn": {"b": 2, "m": 130, "n": 70, "k": 600},  # beyond one block
    "bmk,bnk->bmn": {"b": 3, "m": 37, "n": 129, "k": 530},
    "mk,bkn->bmn": {"b": 1, "m": 7, "n": 5, "k": 1},
    "aibk,kcb->iac": {"a": 2, "i": 3, "b": 5, "k": 7, "c": 17},
    "bmk,bk->bm": {"b": 3, "m": 17, "k": 33},
    "km,nk->mn": {"k": 0, "m": 5, "n": 7},  # known to be empty
    "kabm,nbka->bmna": {"k": 5, "a": 2, "b": 0, "m": 17, "n": 3},
    "amk,kan->mn": {"a": 3, "m": 21, "k": 40, "n": 18},  # a few columns beside whole vectors
    "km,kn->mn": {"k": 40, "m": 530, "n": 35},
    "mk,nk->mn": {"k": 300, "m": 21, "n": 20},
    "mk,kn->nm": {"k": 70, "m": 33, "n": 9},
}


def payload(spec: str, static: dict[str, int] | None = None) -> str:
    """A function of one contraction, with symbols for all dims, or with these sizes."""
    inputs, _, out = spec.partition("->")
    lhs, _, rhs = inputs.partition(",")

    def type_of(dims: str) -> str:
        extents = [str(static[d]) if static else f"[{d.upper()}]" for d in dims]
        return f"tensor<{'x'.join([*extents, 'f32'])}>"

    def names(dims: str) -> str:
        return str(list(dims)).replace("'", '"')

    symbols = "" if static else f" symbols [{', '.join(sorted({*lhs, *rhs})).upper()}]"
    name = "_".join(filter(None, (lhs, rhs, out, "static" if static else "")))
    return (
        f"func @{name}(%x: {type_of(lhs)}, %y: {type_of(rhs)}) -> {type_of(out)}{symbols} {{\n"
        f"  %r = tcp.contract(%x, %y) {{lhs = {names(lhs)}, rhs = {names(rhs)}, out = {names(out)}}} : {type_of(out)}\n"
        "  tcp.return(%r)\n}\n"
    )


def check(kernel: Kernel, spec: str, sizes: dict[str, int]) -> None:
    """Small integers, so that every order of a sum is exact."""
    random = np.random.default_rng(7)
    lhs, rhs = spec.partition("->")[0].split(",")
    given = [random.integers(-4, 5, [sizes[d] for d in dims]).astype(np.float32) for dims in (lhs, rhs)]
    (found,) = run_guarded(kernel, *given)
    np.testing.assert_array_equal(found, np.einsum(spec, *given), err_msg=f"{spec} {sizes}")


def test_symbolic_sizes(target: Target) -> None:
    requests = [tcpx.CompileRequest(tcpx.parse(payload(spec))) for spec in FORMS]
    kernels = tcpx.compile_many(requests, target=target, threads=2)
    for spec, kernel in zip(FORMS, kernels, strict=True):
        dims = sorted(set(spec) - set(",->"))
        check(kernel, spec, dict.fromkeys(dims, 1))
        check(kernel, spec, {d: (5, 13, 3, 18)[position % 4] for position, d in enumerate(dims)})
        check(kernel, spec, {d: (19, 2, 33)[position % 3] for position, d in enumerate(dims)})
        for empty in dims:
            check(kernel, spec, {d: 0 if d == empty else 3 for d in dims})


def test_static_sizes(target: Target) -> None:
    requests = [tcpx.CompileRequest(tcpx.parse(payload(spec, sizes))) for spec, sizes in STATIC.items()]
    for (spec, sizes), kernel in zip(STATIC.items(), tcpx.compile_many(requests, target=target), strict=True):
        check(kernel, spec, sizes)


ALONE = ("b,c->c", "c,b->c", "bc,c->", "bd,d->d", "bd,de->e", "db,d->")
"""Every `b` is a reduction dim of one factor alone, of extent 4; the others may be summed as well."""


def test_factors_are_multiplied_before_a_dim_of_one_alone_is_summed(target: Target) -> None:
    """So says the definition: sums of one factor overflow where sums of products do not, and hide 0 times infinity."""
    modules = [tcpx.parse(payload(spec)) for spec in ALONE]
    kernels = tcpx.compile_many([tcpx.CompileRequest(module) for module in modules], target=target)
    for spec, module, kernel in zip(ALONE, modules, kernels, strict=True):
        lhs, rhs = spec.partition("->")[0].split(",")
        for large, small in (([3e38, 3e38, -3e38, 0], 0.25 / 3), ([0, 1, 2, 3], np.inf)):
            factors: list[npt.NDArray[np.float32]] = []
            for dims in (lhs, rhs):
                shape = [4 if d == "b" else 3 for d in dims]
                along = np.array(large if "b" in dims else small, np.float32)
                axis = [-1 if d == "b" else 1 for d in dims] if "b" in dims else []
                factors.append(np.broadcast_to(along.reshape(axis), shape).copy())
            with np.errstate(invalid="ignore"):
                space = list(dict.fromkeys(lhs + rhs))
                wide = [_in_space(f, dims, space) for f, dims in zip(factors, (lhs, rhs), strict=True)]
                summed = tuple(k for k, d in enumerate(space) if d not in spec.partition("->")[2])
                wanted = np.multiply(*wide).sum(axis=summed)
                evaluated = np.asarray(tcpx.evaluate(module, *factors))
            assert np.isnan(wanted).all() if small == np.inf else np.isfinite(wanted).all()
            for found in (evaluated, np.asarray(kernel(*factors))):
                np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=1e-5, err_msg=spec)


def _in_space(factor: npt.NDArray[np.float32], dims: str, space: list[str]) -> npt.NDArray[np.float64]:
    """A factor in f64 with its dims among those of the whole iteration space."""
    order = [dims.index(d) for d in space if d in dims]
    shape = [factor.shape[dims.index(d)] if d in dims else 1 for d in space]
    return factor.astype(np.float64).transpose(order).reshape(shape)


SQUARE = {
    "mk,kn->mn": ("[M]", "[M]", "[M]"),
    "mk,nk->mn": ("[M]", "[M]", "7"),
    "km,kn->mn": ("[M]", "9", "[M]"),
    "mk,kn->nm": ("5", "[M]", "[M]"),
}
"""Extents of m, n and k, some of them one symbol: what a schedule asks of one says something of the others."""


@pytest.mark.parametrize("threads", [1, 2])
def test_dims_of_one_symbol(target: Target, threads: int) -> None:
    requests = []
    for spec, extents in SQUARE.items():
        text = payload(spec)
        for dim, extent in zip("MNK", extents, strict=True):
            text = text.replace(f"[{dim}]x", f"{extent.replace('M', '_')}x")
        requests.append(tcpx.CompileRequest(tcpx.parse(text.replace("_]x", "M]x").replace("[K, M, N]", "[M]"))))
    kernels = tcpx.compile_many(requests, target=target, threads=threads)
    for (spec, extents), kernel in zip(SQUARE.items(), kernels, strict=True):
        for m in (0, 1, 3, 70):
            check(kernel, spec, {d: m if e == "[M]" else int(e) for d, e in zip("mnk", extents, strict=True)})


@pytest.mark.parametrize("spec", ["hmk,hkn->mnh", "mkh,knh->mnh", "hk,nkh->hn", "kh,nhk->nh"])
def test_what_follows_a_result_in_another_order(target: Target, spec: str) -> None:
    text, out = payload(spec), "x".join(f"[{d.upper()}]" for d in spec.partition("->")[2])
    type_ = f"tensor<{out}xf32>"
    text = text.replace(") -> ", f", %z: {type_}) -> ").replace(
        "  tcp.return(%r)",
        f"  %s = tcp.add(%r, %z) : {type_}\n  %q = tcp.mul(%s, %z) : {type_}\n  tcp.return(%q)",
    )
    kernel, random = tcpx.compile(tcpx.parse(text), target=target, threads=2), np.random.default_rng(3)
    lhs, rhs = spec.partition("->")[0].split(",")
    for sizes in (
        {"h": 5, "m": 7, "n": 19, "k": 33},
        {"h": 1, "m": 1, "n": 1, "k": 1},
        {"h": 18, "m": 3, "n": 2, "k": 0},
    ):
        x, w, z = (
            random.integers(-4, 5, [sizes[d] for d in dims]).astype(np.float32)
            for dims in (lhs, rhs, spec.partition("->")[2])
        )
        (found,) = run_guarded(kernel, x, w, z)
        np.testing.assert_array_equal(found, (np.einsum(spec, x, w) + z) * z, err_msg=f"{spec} {sizes}")


@pytest.mark.parametrize("rows", [1, 3, 4])
def test_few_rows_and_any_number_of_columns(target: Target, rows: int) -> None:
    """Whatever caches the target has, no version that the schedule makes hides another one."""
    text = (
        f"func @rows{rows}(%x: tensor<{rows}x31xf32>, %y: tensor<31x[N]xf32>) -> tensor<{rows}x[N]xf32> symbols [N]"
        " {\n"
        f"  %r = tcp.matmul(%x, %y) : tensor<{rows}x[N]xf32>\n  tcp.return(%r)\n}}\n"
    )
    kernel = tcpx.compile(tcpx.parse(text), target=target)
    for columns in (0, 5, 70):
        check(kernel, "mk,kn->mn", {"m": rows, "k": 31, "n": columns})


@pytest.mark.parametrize("rhs", ["kn", "nk"])
def test_constant_weights_are_packed_by_the_compiler(target: Target, rhs: str) -> None:
    weights = np.random.default_rng(1).integers(-4, 5, [{"k": 530, "n": 70}[d] for d in rhs]).astype(np.float32)
    shape = "x".join(map(str, weights.shape))
    text = (
        f"func @constant_{rhs}(%x: tensor<[M]x530xf32>) -> tensor<[M]x70xf32> symbols [M] {{\n"
        f'  %w = tcp.const {{constant = "w"}} : tensor<{shape}xf32>\n'
        f'  %r = tcp.contract(%x, %w) {{lhs = ["m", "k"], rhs = ["{rhs[0]}", "{rhs[1]}"], out = ["m", "n"]}}'
        " : tensor<[M]x70xf32>\n  tcp.return(%r)\n}\n"
    )
    module = tcpx.parse(text, constants=Constants({"w": weights}))
    kernel = tcpx.compile(module, target=target)
    for rows in (0, 1, 13, 30):
        x = np.random.default_rng(rows).integers(-4, 5, (rows, 530)).astype(np.float32)
        (found,) = run_guarded(kernel, x)
        np.testing.assert_array_equal(found, np.einsum(f"mk,{rhs}->mn", x, weights))
    assert "/* r.rhs/pack1" not in tcpx.emit(module, target=target).c_source


def test_layers_are_one_kernel(target: Target) -> None:
    type_, lines, args, value = "tensor<[M]x37xf32>", "", "", "x"
    for k in range(3):
        args += f", %w{k}: tensor<37x37xf32>, %b{k}: tensor<37xf32>"
        lines += (
            f"  %m{k} = tcp.matmul(%{value}, %w{k}) : {type_}\n"
            f"  %c{k} = tcp.broadcast(%b{k}) {{dims = [1]}} : {type_}\n"
            f"  %s{k} = tcp.add(%m{k}, %c{k}) : {type_}\n  %r{k} = tcp.max(%s{k}, %z) : {type_}\n"
        )
        value = f"r{k}"
    zero = f"  %z = tcp.fill {{value = 0.0}} : {type_}\n"
    module = tcpx.parse(
        f"func @mlp(%x: {type_}{args}) -> {type_} symbols [M] {{\n{zero}{lines}  tcp.return(%{value})\n}}"
    )
    kernel = tcpx.compile(module, target=target, threads=2)
    random = np.random.default_rng(6)
    for rows in (0, 1, 19, 70):
        given = [random.integers(-2, 3, (rows, 37)).astype(np.float32)]
        for _ in range(3):
            given += [random.integers(-1, 2, shape).astype(np.float32) for shape in ((37, 37), 37)]
        (found,) = run_guarded(kernel, *given)
        wanted = given[0]
        for k in range(3):
            wanted = np.maximum(wanted @ given[1 + 2 * k] + given[2 + 2 * k], 0)
        np.testing.assert_array_equal(found, wanted)


LONG = {
    "mk,kn->mn": {"m": 3, "k": 2500, "n": 5},
    "mk,nk->mn": {"m": 5, "k": 2051, "n": 9},
    "km,kn->mn": {"m": 9, "k": 2049, "n": 33},
    "mk,kn->nm": {"m": 9, "k": 2049, "n": 17},
    "mjk,jkn->mn": {"m": 3, "j": 2, "k": 2049, "n": 20},
    "k,kn->n": {"k": 5001, "n": 37},
    "nk,k->n": {"k": 5001, "n": 9},
}
"""Forms that have few results for the threads, and a sum that is long enough for all of them."""


def test_threads_share_a_long_sum(target: Target) -> None:
    requests = [tcpx.CompileRequest(tcpx.parse(payload(spec, sizes))) for spec, sizes in LONG.items()]
    for (spec, sizes), kernel in zip(LONG.items(), tcpx.compile_many(requests, target=target, threads=2), strict=True):
        assert "combined" in kernel.c_source, spec
        check(kernel, spec, sizes)


@pytest.mark.parametrize("spec", ["mk,kn->mn", "nk,k->n"])
def test_threads_share_a_long_sum_of_any_size(target: Target, spec: str) -> None:
    kernel = tcpx.compile(tcpx.parse(payload(spec)), target=target, threads=2)
    for k in (1023, 1024, 1025, 3001):
        check(kernel, spec, {**LONG[spec], "k": k})


LINEAR = """\
func @linear(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x9xf32>, %b: tensor<9xf32>) -> tensor<[M]x9xf32> symbols [M, K] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x9xf32>
  %bb = tcp.broadcast(%b) {dims = [1]} : tensor<[M]x9xf32>
  %s = tcp.add(%mm, %bb) : tensor<[M]x9xf32>
  %zero = tcp.fill {value = 0.0} : tensor<[M]x9xf32>
  %r = tcp.max(%s, %zero) : tensor<[M]x9xf32>
  tcp.return(%r)
}
"""


def test_what_follows_a_shared_sum_is_computed_where_the_parts_are_added(target: Target) -> None:
    kernel = tcpx.compile(tcpx.parse(LINEAR), target=target, threads=2)
    random = np.random.default_rng(7)
    for m, k in ((7, 3001), (0, 2000), (1, 1024), (7, 0)):
        x, w, b = (random.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, 9), (9,)))
        (found,) = run_guarded(kernel, x, w, b)
        np.testing.assert_array_equal(found, np.maximum(x @ w + b, 0))


GRIDS = (("mk,kn->mn", {"m": 12, "n": 127, "k": 70}), ("mk,nk->mn", {"m": 17, "n": 125, "k": 300}))


def test_threads_share_a_result_of_few_tiles_as_a_grid() -> None:
    """Four threads, and two tiles in a row and in a column."""
    requests = [tcpx.CompileRequest(tcpx.parse(payload(spec, sizes))) for spec, sizes in GRIDS]
    for (spec, sizes), kernel in zip(GRIDS, tcpx.compile_many(requests, target="x86_avx512", threads=4), strict=True):
        assert "#pragma omp parallel for collapse(2) num_threads(4)" in kernel.c_source, spec
        check(kernel, spec, sizes)


NUMPY = {"f32": "f4", "f64": "f8", "si32": "i4"}


def few_columns(dtype: str, columns: int) -> str:
    type_ = f"tensor<[M]x{columns}x{dtype}>"
    return (
        f"func @columns{columns}_{dtype}(%x: tensor<[M]x[K]x{dtype}>, %w: tensor<[K]x{columns}x{dtype}>,"
        f" %b: tensor<{columns}x{dtype}>, %y: {type_}) -> {type_} symbols [M, K] {{\n"
        f"  %mm = tcp.matmul(%x, %w) : {type_}\n  %bb = tcp.broadcast(%b) {{dims = [1]}} : {type_}\n"
        f"  %s = tcp.add(%mm, %bb) : {type_}\n  %r = tcp.add(%s, %y) : {type_}\n  tcp.return(%r)\n}}\n"
    )


@pytest.mark.parametrize("dtype", NUMPY)
def test_columns_that_do_not_fill_a_vector(target: Target, dtype: str) -> None:
    """Few of them, in part of a register or as sums along rows, and a few beside whole vectors."""
    widths = (2, 5, 8, 15, 17, 35, 61)[:: 1 if dtype == "f32" else 2]
    requests = [tcpx.CompileRequest(tcpx.parse(few_columns(dtype, n))) for n in widths]
    random = np.random.default_rng(8)
    for n, kernel in zip(widths, tcpx.compile_many(requests, target=target, threads=2), strict=True):
        for m, k in ((0, 3), (1, 40), (7, 0), (19, 33), (70, 260), (530, 65)):
            shapes = ((m, k), (k, n), (n,), (m, n))
            x, w, b, y = (random.integers(-4, 5, shape).astype(NUMPY[dtype]) for shape in shapes)
            (found,) = run_guarded(kernel, x, w, b, y)
            np.testing.assert_array_equal(found, x @ w + b + y, err_msg=f"{m} x {n} x {k}")


def test_a_constant_beyond_l2_is_asked_for_ahead() -> None:
    """Of a slow L3, for up to 512 rows: in a version of its own where their number is not known."""
    text = """
func @f(%x: tensor<[M]x1536xf32>) -> tensor<[M]x384xf32> symbols [M: 1..] {
  %w = tcp.const {constant = "w"} : tensor<1536x384xf32>
  %y = tcp.matmul(%x, %w) : tensor<[M]x384xf32>
  tcp.return(%y)
}
"""
    constants = {"w": np.zeros((1536, 384), np.float32)}
    source = tcpx.emit(tcpx.parse(text, constants=constants), target="sapphire_rapids").c_source
    assert "if (M <= 512)" in source
    assert "prefetch(y_rhs" in source


def test_narrow_vectors_hold_the_columns_beside_whole_vectors() -> None:
    source = tcpx.emit(tcpx.parse(payload("mk,kn->mn", {"m": 40, "k": 5, "n": 18})), target="x86_avx512").c_source
    assert "__m512 r_" in source
    assert "__m256 r_" in source
    whole = tcpx.emit(tcpx.parse(payload("mk,kn->mn", {"m": 40, "k": 5, "n": 32})), target="x86_avx512").c_source
    assert "__m256" not in whole


def test_left_factors_from_afar_are_asked_for_ahead(target: Target) -> None:
    """Where L3 is fast, and L2 does not hold them all; their last tiles ask for nothing behind the array."""
    sizes = {"b": 3, "m": 301, "k": 301, "n": 64}
    module = tcpx.parse(payload("bmk,bkn->bmn", sizes))
    check(tcpx.compile(module, target=target), "bmk,bkn->bmn", sizes)
    assert "__builtin_prefetch(x" in tcpx.emit(module, target="x86_avx512").c_source
    near = tcpx.parse(payload("bmk,bkn->bmn", {**sizes, "m": 60}))
    for same, name in ((near, "x86_avx512"), (module, "sapphire_rapids")):
        assert "__builtin_prefetch(x" not in tcpx.emit(same, target=name).c_source


@pytest.mark.parametrize("spec", FORMS)
def test_where_l3_is_slow_every_form_has_a_schedule(spec: str) -> None:
    assert tcpx.emit(tcpx.parse(payload(spec)), target="sapphire_rapids", threads=2).c_source


FAR = (  # right factors within and beyond the L2 of sapphire_rapids
    ("mk,kn->mn", {"m": 4, "k": 1024, "n": 530}),
    ("mk,kn->mn", {"m": 17, "k": 1024, "n": 530}),
    ("mk,kn->mn", {"m": 49, "k": 1024, "n": 530}),
    ("mk,kn->mn", {"m": 20, "k": 140, "n": 4200}),  # some rows of the right factor are packed at a time
    ("mk,kn->mn", {"m": 65, "k": 70, "n": 2100}),
    ("mk,kn->mn", {"m": 48, "k": 90, "n": 70}),
    ("mk,kn->mn", {"m": 49, "k": 90, "n": 70}),
    ("bmk,bkn->bmn", {"b": 2, "m": 49, "k": 90, "n": 70}),
    ("bkm,bkn->bmn", {"b": 2, "m": 33, "k": 530, "n": 130}),
    ("bkm,bkn->bmn", {"b": 2, "m": 259, "k": 70, "n": 64}),
)


ROWS = (
    "1",
    "3",
    "8",
    "16",
    "17",
    "48",
    "49",
    "[M]",
    "[M] symbols M: 1..3",
    "[M] symbols M: 4..16",
    "[M] symbols M: 0..48",
)


@pytest.mark.parametrize("target_name", ["sapphire_rapids", "x86_avx512"])
@pytest.mark.parametrize("rows", ROWS)
def test_no_version_hides_another_one(rows: str, target_name: str) -> None:
    """Whatever of the sizes is known, and whatever is known of the others, is accepted."""
    m, _, bounds = rows.partition(" symbols ")
    for k, n in (("[K]", "[N]"), ("64", "[N]"), ("1500", "[N]"), ("[K]", "512"), ("1500", "512")):
        symbols = [bounds or "M"] * (m == "[M]") + ["K"] * (k == "[K]") + ["N"] * (n == "[N]")
        text = (
            f"func @known(%x: tensor<{m}x{k}xf32>, %y: tensor<{k}x{n}xf32>) -> tensor<{m}x{n}xf32>"
            + (f" symbols [{', '.join(symbols)}]" if symbols else "")
            + f" {{\n  %r = tcp.matmul(%x, %y) : tensor<{m}x{n}xf32>\n  tcp.return(%r)\n}}\n"
        )
        assert tcpx.apply_schedule(tcpx.parse(text), None, target=target_name).trace.entries, text


def test_where_l3_is_slow() -> None:
    target = tcpx.load_target("sapphire_rapids", ())
    require_cpu_of(target)
    symbolic = [tcpx.CompileRequest(tcpx.parse(payload(spec))) for spec, _ in FAR]
    static = [tcpx.CompileRequest(tcpx.parse(payload(spec, sizes))) for spec, sizes in FAR]
    kernels = tcpx.compile_many([*symbolic, *static], target=target, threads=2)
    for (spec, sizes), kernel in zip((*FAR, *FAR), kernels, strict=True):
        check(kernel, spec, sizes)


BOUNDED = """func @f(%x: tensor<{x}xf32>, %w: tensor<{w}xf32>) -> tensor<[M]x[N]xf32> symbols [M{m}, K, N{n}] {{
  %mm = tcp.contract(%x, %w) {{lhs = ["{l0}", "{l1}"], rhs = ["{r0}", "{r1}"], out = ["m", "n"]}} : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}}
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("lhs", "rhs", "m", "n"),
    [
        ("mk", "kn", (0, 600), (0, 18)), ("mk", "kn", (0, 600), (9, 24)), ("mk", "kn", (1, 40), (17, 20)),
        ("km", "nk", (0, 600), (0, 600)), ("km", "nk", (1, 134), (462, 462)), ("mk", "nk", (0, 300), (0, 24)),
    ],
)  # fmt: skip
def test_sizes_within_bounds(lhs: str, rhs: str, m: tuple[int, int], n: tuple[int, int], threads: int) -> None:
    """What a bound lets a schedule choose holds for all sizes within it."""
    (l0, l1), (r0, r1) = lhs, rhs
    shapes = {"x": "x".join(f"[{d.upper()}]" for d in lhs), "w": "x".join(f"[{d.upper()}]" for d in rhs)}
    ranges = {"m": f": {m[0]}..{m[1]}", "n": f": {n[0]}..{n[1]}"}
    text = BOUNDED.format(l0=l0, l1=l1, r0=r0, r1=r1, **shapes, **ranges)
    kernel = tcpx.compile(tcpx.parse(text), target="native", threads=threads)
    random = np.random.default_rng(5)
    for rows, columns in {(m[0], n[1]), (m[1], n[0]), (sum(m) // 2, sum(n) // 2)}:
        sizes = {"m": rows, "n": columns, "k": 19}
        x, w = (random.integers(-4, 5, [sizes[d] for d in each]).astype(np.float32) for each in (lhs, rhs))
        np.testing.assert_array_equal(kernel(x, w), np.einsum(f"{lhs},{rhs}->mn", x, w))
