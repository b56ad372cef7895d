"""Windows written as `generic`, without a schedule: convolutions and poolings of any rank, stride and dilation."""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import ceil

import numpy as np
import pytest

import tcpx
from tcpx.target import Target

PER_CHUNK = 5


@dataclass(frozen=True, slots=True)
class Windows:
    """A reduction of windows: `kind` is dense, depthwise or pool; `out` are the spatial dims of the result."""

    kind: str
    dtype: str
    out: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: int
    dilation: int
    channels: tuple[int, int]
    is_last: bool
    has_epilogue: bool
    symbolic: bool

    @property
    def text(self) -> str:
        """The payload. Symbols: N images, C channels in, D channels out."""
        across = range(len(self.out))
        taps, places = [f"k{a}" for a in across], [f"i{a}" for a in across]
        read = [f"{self.stride}*i{a} + {self.dilation}*k{a}" for a in across]
        pairs = zip(self.out, self.kernel, strict=True)
        held = [str((n - 1) * self.stride + (k - 1) * self.dilation + 1) for n, k in pairs]
        n, c, d = ("[N]", "[C]", "[D]") if self.symbolic else ("2", *map(str, self.channels))
        dense = self.kind == "dense"
        d, names = (d, ["c", "d"]) if dense else (c, ["c", "c"])
        arguments = {"x": self._dims([n], held, c)}
        maps = [self._dims(["n"], read, names[0])]
        if self.kind != "pool":
            arguments["w"] = [*map(str, self.kernel), c, *([d] if dense else [])]
            maps.append([*taps, "c", *(["d"] if dense else [])])
        maps.append(self._dims(["n"], places, names[1]))
        result = self._type(self._dims([n], list(map(str, self.out)), d))
        parallel = [f'["{name}", "parallel"]' for name in maps[-1]]
        reduced = [f'["{tap}", "reduction", {extent}]' for tap, extent in zip(taps, self.kernel, strict=True)]
        iterators = ", ".join([*parallel, *reduced, *(['["c", "reduction"]'] if dense else [])])
        combiner = "tcp.max" if self.kind == "pool" else "tcp.add"
        body = "%a = tcp.mul(%e, %f) : T\n    %r = tcp.add(%acc, %a) : T"
        body = "%r = tcp.max(%acc, %e) : T" if self.kind == "pool" else body
        elements = "%e: T, %acc: T" if self.kind == "pool" else "%e: T, %f: T, %acc: T"
        end = f"  %z = tcp.neg(%y) : {result}\n  tcp.return(%z)" if self.has_epilogue else "  tcp.return(%y)"
        given = ", ".join(f"%{name}: {self._type(dims)}" for name, dims in arguments.items())
        symbols = " symbols [N, C, D]" if self.symbolic and dense else " symbols [N, C]" if self.symbolic else ""
        listed = ", ".join(f"[{', '.join(m)}]" for m in maps)
        return (
            f"func @f({given}) -> {result}{symbols} {{\n"
            f"  %y = tcp.generic({', '.join(f'%{name}' for name in arguments)}) {{iterators = [{iterators}],\n"
            f'      maps = [{listed}], combiner = "{combiner}"}} ({{ ({elements}):\n'
            f"    {body}\n    tcp.yield(%r)\n  }}) : {result}\n{end}\n}}\n"
        ).replace(": T", f": {self.dtype}")

    def _dims(self, before: list[str], inner: list[str], channel: str) -> list[str]:
        return [*before, *inner, channel] if self.is_last else [*before, channel, *inner]

    def _type(self, dims: list[str]) -> str:
        return f"tensor<{'x'.join([*dims, self.dtype])}>"

    @property
    def sizes(self) -> dict[str, int]:
        """Values of the symbols."""
        known = {"N": 2, "C": self.channels[0]} | ({"D": self.channels[1]} if self.kind == "dense" else {})
        return known if self.symbolic else {}


def drawn(count: int) -> list[Windows]:
    """Windows of one to three dims, some of them with symbolic sizes, some of these empty."""
    draw, found = random.Random(9), list[Windows]()
    for number in range(count):
        rank = (2, 2, 1, 3)[number % 4]
        found.append(
            Windows(
                ("dense", "depthwise", "pool")[number % 3],
                ("f32", "f32", "si32", "f64")[number % 4],
                tuple(draw.choice((1, 3, 7, 9) if rank < 3 else (1, 4)) for _ in range(rank)),
                tuple(draw.choice((1, 2, 3, 3, 5) if rank < 3 else (2, 3)) for _ in range(rank)),
                draw.choice((1, 2)),
                draw.choice((1, 1, 2)),
                (draw.choice((0, 3, 17)) if number > 5 else 5, draw.choice((1, 16, 19, 37))),
                draw.random() < 0.6,
                draw.random() < 0.5,
                draw.random() < 0.4,
            )
        )
    return found


CASES = drawn(40)


@pytest.mark.parametrize("chunk", range(ceil(len(CASES) / PER_CHUNK)))
def test_numbers(target: Target, chunk: int) -> None:
    """Elements are small integers, so that sums are exact in any order."""
    cases = CASES[PER_CHUNK * chunk : PER_CHUNK * (chunk + 1)]
    requests = [tcpx.CompileRequest(tcpx.parse(case.text), name=f"f{number}") for number, case in enumerate(cases)]
    kernels = tcpx.compile_many(requests, target=target, threads=1 + chunk % 2)
    for case, kernel in zip(cases, kernels, strict=True):
        assert not [remark for remark in kernel.remarks if not remark.factor], f"{case.text}{kernel.remarks}"
        module = tcpx.parse(case.text)
        arrays = [np.rint(np.multiply(a, 3)).astype(a.dtype) for a in tcpx.random_inputs(module, sizes=case.sizes)]
        np.testing.assert_array_equal(kernel(*arrays), tcpx.evaluate(module, *arrays), err_msg=case.text)
