"""Contractions by name: they are what tcp.contract says of these dims, and found in it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tcpx
from tcpx.payload.text.parser import parse
from tests.structural.cases import Case, check_columns, check_evaluation, numbers

SHAPES = {
    "batch_matmul": ("[B]x[M]x[K]x", "[B]x[K]x[N]x", "[B]x[M]x[N]x"),
    "matvec": ("[M]x[K]x", "[K]x", "[M]x"),
    "vecmat": ("[K]x", "[K]x[N]x", "[N]x"),
    "dot": ("[K]x", "[K]x", ""),
}
LETTERS = {
    "batch_matmul": 'lhs = ["b", "m", "k"], rhs = ["b", "k", "n"], out = ["b", "m", "n"]',
    "matvec": 'lhs = ["m", "k"], rhs = ["k"], out = ["m"]',
    "vecmat": 'lhs = ["k"], rhs = ["k", "n"], out = ["n"]',
    "dot": 'lhs = ["k"], rhs = ["k"], out = []',
}
SIZES = ({"B": 3, "M": 5, "N": 17, "K": 7}, {"B": 1, "M": 1, "N": 1, "K": 1}, {"B": 2, "M": 4, "N": 3, "K": 0})


def _payload(name: str, opcode: str, attributes: str = "") -> str:
    lhs, rhs, out = (f"tensor<{shape}f32>" for shape in SHAPES[name])
    symbols = [s for s in "BMNK" if f"[{s}]" in lhs + rhs]
    return (
        f"func @f(%x: {lhs}, %y: {rhs}, %z: {out}) -> {out} symbols [{', '.join(symbols)}] {{\n"
        f"  %p = tcp.add(%x, %x) : {lhs}\n  %v = {opcode}(%p, %y, init = %z){attributes} : {out}\n"
        f"  %c = tcp.mul(%v, %v) : {out}\n  tcp.return(%c)\n}}\n"
    )


def _case(name: str) -> Case:
    def wanted(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> list[np.ndarray]:
        return [np.square(np.matmul(x + x, y) + z)]

    calls = [
        [numbers(*(sizes[s] for s in shape if s.isupper()), dtype="int8").astype(np.float32) for shape in SHAPES[name]]
        for sizes in SIZES
    ]
    return Case(_payload(name, f"tcp.{name}"), wanted, calls, columns=("tiled", "vectorized", "default"))


CASES = {name: _case(name) for name in SHAPES}


@pytest.mark.parametrize("name", CASES)
def test_evaluates(name: str) -> None:
    check_evaluation(CASES[name])


def test_columns() -> None:
    check_columns(CASES)


@pytest.mark.parametrize("name", CASES)
def test_is_found_in_a_contraction_and_in_a_generic(name: str) -> None:
    steps = {
        _payload(name, "tcp.contract", f" {{{LETTERS[name]}}}"): f"specialize(v, to: {name})",
        _payload(name, f"tcp.{name}"): f"let g = generalize(v)\nspecialize(g, to: {name})",
    }
    for payload, statements in steps.items():
        text = f"language 1\nschedule s(root: func) {{\nlet v = match one contract in root\n{statements}\n}}\n"
        module = tcpx.apply_schedule(parse(payload), tcpx.parse_schedule(text)).module
        assert [op.opcode for op in module.main.body.ops if op.name == "v"] == [f"tcp.{name}"]


@pytest.mark.parametrize("name", CASES)
def test_default_schedule_treats_it_as_the_contraction(name: str) -> None:
    sources = [
        re.sub(r"_[0-9]+", "", tcpx.emit(parse(text), target="x86_avx512", name="k").c_source)
        for text in (_payload(name, f"tcp.{name}"), _payload(name, "tcp.contract", f" {{{LETTERS[name]}}}"))
    ]
    assert sources[0] == sources[1]
