"""Every kernel that a test calls runs a second time, at these shapes, with its arrays flush against pages that may not
be touched, and has to give what it gave the test."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pytest

from tcpx.emit_c.kernel import Kernel
from tcpx.emit_c.signature import Argument
from tests.guard_pages import run_guarded, same_numbers

Shapes = tuple[tuple[int, ...], ...]


def is_sanitized(kernel: Kernel) -> bool:
    """Whether the kernel is a program of its own, with guards of its own."""
    return kernel.library_path.suffix != ".so"


@pytest.fixture(scope="session", autouse=True)
def guarded_calls() -> Iterator[None]:
    """Wrap `Kernel.__call__` for the session; calls from other threads and with lists for arrays are left alone."""
    known: WeakKeyDictionary[Any, set[Shapes]] = WeakKeyDictionary()
    plain = Kernel.__call__

    def call(self: Kernel, /, *arrays: Any, out: Any = None, **named: Any) -> Any:
        states = {a.name: k for k, a in enumerate(self.signature.arguments) if getattr(a, "state", None) is not None}
        before = {k: np.array(named.get(name, arrays[k] if k < len(arrays) else None)) for name, k in states.items()}
        result = plain(self, *arrays, out=out, **named)
        arrays += tuple(named[a.name] for a in self.signature.arguments if a.name in named)
        numbers = [int(arrays[n.position]) for n in self.signature.numbers]
        arrays = tuple(before.get(k, a) for k, a in enumerate(arrays))
        arrays = tuple(a for k, a in enumerate(arrays) if isinstance(self.signature.arguments[k], Argument))
        shapes = (*(np.shape(a) for a in arrays), tuple(numbers))
        seen = known.setdefault(self._call, set())
        plainly = threading.current_thread() is threading.main_thread() and not is_sanitized(self)
        if plainly and shapes not in seen and all(isinstance(a, np.ndarray) for a in arrays):
            seen.add(shapes)
            dtypes = [argument.dtype.numpy for argument in self.signature.inputs]
            given = [np.array(a, dtype=dtype, order="C") for a, dtype in zip(arrays, dtypes, strict=True)]
            results = result if isinstance(result, tuple) else (result,)
            sizes = {n.symbol.name: number for n, number in zip(self.signature.numbers, numbers, strict=True)}
            for k, (found, held) in enumerate(zip(run_guarded(self, *given, numbers=sizes), results, strict=True)):
                assert same_numbers(found, held), f"result {k} of {self} depends on where its arrays lie"
        return result

    Kernel.__call__ = call
    yield
    Kernel.__call__ = plain
