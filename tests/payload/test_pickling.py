"""Modules in pickles: the same text, constants and entry, however long they are."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np

import tcpx
from tcpx.payload.ir import Module
from tcpx.payload.text.printer import print_module
from tcpx.payload.types import f32
from tests.emit_c.test_state import calls


def chain(length: int) -> str:
    lines = [f"  %v{k + 1} = tcp.neg(%v{k}) : tensor<[N]xf32>" for k in range(length)]
    head = "func @chain(%v0: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {"
    return "\n".join([head, *lines, f"  tcp.return(%v{length})", "}", ""])


def same(module: Module) -> Module:
    found = pickle.loads(pickle.dumps(module))
    assert print_module(found) == print_module(module)
    assert tcpx.fingerprint(found) == tcpx.fingerprint(module)
    return found


def test_a_long_chain_and_functions() -> None:
    for text in (chain(3000), calls(4)):
        same(tcpx.parse(text))
    module = tcpx.parse(calls(2))
    assert module.main.name == same(module).main.name == "main"
    assert print_module(copy.deepcopy(module)) == print_module(module)


def test_constants_go_along() -> None:
    text = (
        'func @f(%x: tensor<2xf32>) -> tensor<2xf32> { %w = tcp.const {constant = "w"} : tensor<2xf32>\n'
        "%y = tcp.add(%x, %w) : tensor<2xf32>\n tcp.return(%y) }"
    )
    x = np.ones(2, np.float32)
    found = same(tcpx.parse(text, constants={"w": np.array([3, 4], np.float32)}))
    assert np.array_equal(tcpx.evaluate(found, x), [4, 5])
    found = same(found)
    assert np.array_equal(tcpx.evaluate(found, x), [4, 5])


def test_operations_from_outside() -> None:
    """In a process that has not imported what declares them."""
    from tests.outside import operations

    text = (
        "func @f(%x: tensor<[N]x4xf32>) -> tensor<[N]x4xf32> symbols [N] {\n"
        "  %y = outside.row_sort(%x) : tensor<[N]x4xf32>\n  tcp.return(%y)\n}\n"
    )
    module = same(tcpx.parse(text))
    assert type(next(iter(module.main.body.ops))).__module__ == operations.__name__
    program = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read()).main.name)"
    done = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(module), capture_output=True, check=True)
    assert done.stdout == b"f\n"


def test_a_scalar_type_stays_the_one_of_its_name() -> None:
    assert pickle.loads(pickle.dumps(f32)) is f32
    assert copy.deepcopy(f32) is f32
