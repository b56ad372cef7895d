"""A transformer of equal blocks, each with weights of its own, over a symbolic batch and length: how long it takes to
become a library under the default schedule, in fresh processes, and how long its C is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from time import perf_counter
from typing import Final

import numpy as np

import tcpx
from benchmarks.bars import Bar, Verdict

BLOCKS: Final = 48
MOST_OF_ONE: Final = 1.5
MOST_FOR_EACH: Final = 0.02
"""Of the seconds for one block; seconds for each block besides."""
WIDTH: Final = 128
HEADS: Final = 4
INNER: Final = 4 * WIDTH
WEIGHTS: Final = {
    "g1": (WIDTH,),
    "c1": (WIDTH,),
    "wq": (WIDTH, WIDTH),
    "wk": (WIDTH, WIDTH),
    "wv": (WIDTH, WIDTH),
    "wo": (WIDTH, WIDTH),
    "g2": (WIDTH,),
    "c2": (WIDTH,),
    "w1": (WIDTH, INNER),
    "b1": (INNER,),
    "w2": (INNER, WIDTH),
    "b2": (WIDTH,),
}
ROWS: Final = f"tensor<[B]x[T]x{WIDTH}xf32>"
SUMS: Final = "tensor<[B]x[T]xf32>"
DEEP: Final = f"tensor<[B]x[T]x{INNER}xf32>"
SPLIT: Final = f"tensor<[B]x[T]x{HEADS}x{WIDTH // HEADS}xf32>"
TURNED: Final = f"tensor<[B]x{HEADS}x[T]x{WIDTH // HEADS}xf32>"
SCORES: Final = f"tensor<[B]x{HEADS}x[T]x[T]xf32>"


def transformer(blocks: int) -> tcpx.Module:
    """The module: `blocks` of norm, attention, residual, norm, perceptron and residual."""
    draw = np.random.default_rng(0)
    lines = [f"func @transformer(%x: {ROWS}) -> {ROWS} symbols [B: 1..64, T: 1..4096] {{"]
    constants: dict[str, np.ndarray] = {}
    last = "x"
    for block in range(blocks):
        for name, shape in WEIGHTS.items():
            constants[f"{name}.{block}"] = draw.standard_normal(shape, dtype=np.float32) / np.float32(shape[0] ** 0.5)
            lines.append(f'  %{name}.{block} = tcp.const {{constant = "{name}.{block}"}} : {_type(*shape)}')
        lines += [line.replace("#", str(block)) for line in _block(last)]
        last = f"y.{block}"
    return tcpx.parse("\n".join([*lines, f"  tcp.return(%{last})", "}"]), constants=constants)


def _block(given: str) -> list[str]:
    """The operations of a block; `#` is its number."""
    lines = _norm(given, "1")
    for name in "qkv":
        lines += [
            f"  %{name}.# = tcp.contract(%n1.#, %w{name}.#) {_maps('b t k', 'k n', 'b t n')} : {ROWS}",
            f"  %{name}s.# = tcp.reshape(%{name}.#) : {SPLIT}",
            f"  %{name}t.# = tcp.transpose(%{name}s.#) {{permutation = [0, 2, 1, 3]}} : {TURNED}",
        ]
    lines += [
        f"  %s.# = tcp.contract(%qt.#, %kt.#) {_maps('b h m k', 'b h n k', 'b h m n')} : {SCORES}",
        f"  %scale.# = tcp.fill {{value = 0.25}} : {SCORES}",
        f"  %sc.# = tcp.mul(%s.#, %scale.#) : {SCORES}",
        f"  %p.# = tcp.softmax(%sc.#) {{dim = 3}} : {SCORES}",
        f"  %o.# = tcp.contract(%p.#, %vt.#) {_maps('b h m k', 'b h k n', 'b h m n')} : {TURNED}",
        f"  %ot.# = tcp.transpose(%o.#) {{permutation = [0, 2, 1, 3]}} : {SPLIT}",
        f"  %or.# = tcp.reshape(%ot.#) : {ROWS}",
        f"  %a.# = tcp.contract(%or.#, %wo.#) {_maps('b t k', 'k n', 'b t n')} : {ROWS}",
        f"  %r.# = tcp.add(%{given}, %a.#) : {ROWS}",
        *_norm("r.#", "2"),
        f"  %f.# = tcp.contract(%n2.#, %w1.#) {_maps('b t k', 'k n', 'b t n')} : {DEEP}",
        f"  %bb1.# = tcp.broadcast(%b1.#) {{dims = [2]}} : {DEEP}",
        f"  %fb.# = tcp.add(%f.#, %bb1.#) : {DEEP}",
        f"  %ge.# = tcp.gelu(%fb.#) : {DEEP}",
        f"  %u.# = tcp.contract(%ge.#, %w2.#) {_maps('b t k', 'k n', 'b t n')} : {ROWS}",
        f"  %bb2.# = tcp.broadcast(%b2.#) {{dims = [2]}} : {ROWS}",
        f"  %ub.# = tcp.add(%u.#, %bb2.#) : {ROWS}",
        f"  %y.# = tcp.add(%r.#, %ub.#) : {ROWS}",
    ]
    return lines


def _norm(given: str, which: str) -> list[str]:
    """Rows about their mean, in units of their mean deviation, scaled and shifted: a payload has no square root."""
    lines = [f"  %share{which}.# = tcp.fill {{value = {1 / WIDTH}}} : {SUMS}"]
    for name, of in (("mean", given), ("dev", f"abs{which}.#")):
        if name == "dev":
            lines += [
                f"  %mr{which}.# = tcp.broadcast(%mean{which}.#) {{dims = [0, 1]}} : {ROWS}",
                f"  %cen{which}.# = tcp.sub(%{given}, %mr{which}.#) : {ROWS}",
                f"  %zero{which}.# = tcp.fill {{value = 0.0}} : {ROWS}",
                f"  %neg{which}.# = tcp.sub(%zero{which}.#, %cen{which}.#) : {ROWS}",
                f"  %abs{which}.# = tcp.max(%cen{which}.#, %neg{which}.#) : {ROWS}",
            ]
        lines += [
            f"  %{name}s{which}.# = tcp.reduce_sum(%{of}) {{dims = [2]}} : {SUMS}",
            f"  %{name}{which}.# = tcp.mul(%{name}s{which}.#, %share{which}.#) : {SUMS}",
        ]
    return [
        *lines,
        f"  %dr{which}.# = tcp.broadcast(%dev{which}.#) {{dims = [0, 1]}} : {ROWS}",
        f"  %q{which}.# = tcp.div(%cen{which}.#, %dr{which}.#) : {ROWS}",
        f"  %gr{which}.# = tcp.broadcast(%g{which}.#) {{dims = [2]}} : {ROWS}",
        f"  %cr{which}.# = tcp.broadcast(%c{which}.#) {{dims = [2]}} : {ROWS}",
        f"  %qg{which}.# = tcp.mul(%q{which}.#, %gr{which}.#) : {ROWS}",
        f"  %n{which}.# = tcp.add(%qg{which}.#, %cr{which}.#) : {ROWS}",
    ]


def _maps(lhs: str, rhs: str, out: str) -> str:
    """The attributes of a contraction: the dims of its operands and its result."""
    held = {"lhs": lhs, "rhs": rhs, "out": out}
    return "{" + ", ".join(f"{key} = {str(dims.split()).replace(chr(39), chr(34))}" for key, dims in held.items()) + "}"


def _type(*shape: int) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}f32>"


def transformer_bars() -> Iterator[Verdict]:
    """The time for many blocks beside that for one, and the C of the functions that they call beside all C of one."""
    one, many = (_in_a_process(blocks) for blocks in (1, BLOCKS))
    most = MOST_OF_ONE * one["seconds"] + MOST_FOR_EACH * BLOCKS
    note = f"{many['bytes of C']} bytes of C; one block: {one['seconds']:.1f} s, {one['bytes of C']} bytes"
    yield Verdict(f"library of {BLOCKS} equal blocks", 1, Bar("seconds", most), many["seconds"], note)
    longer = many["bytes of C of functions called"] / one["bytes of C"] - 1
    yield Verdict(f"C of {BLOCKS} equal blocks, without the calls", 1, Bar("apart", 0.1, "one block"), max(longer, 0))


def _in_a_process(blocks: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.transformer", str(blocks)]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TCPX_CACHE_DIR": folder}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def _measured(blocks: int) -> dict[str, float]:
    module = transformer(blocks)
    started = perf_counter()
    kernel = tcpx.compile(module)
    seconds = perf_counter() - started
    lengths = [len(text) for text in kernel.sources.values()]
    return {"seconds": seconds, "bytes of C": sum(lengths), "bytes of C of functions called": sum(lengths[1:])}


if __name__ == "__main__":
    print(json.dumps(_measured(int(sys.argv[1]))))
