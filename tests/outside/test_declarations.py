"""Sixty random operations go through what one of the package does: text, evaluation, tiles, fusion, lanes, threads.

A schedule may be refused, at a place in it. What is compiled gives what the plain loop over iterations gives, at odd,
small and empty sizes, between pages that may not be touched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache

import pytest

import tcpx
from tcpx.api import lowered
from tcpx.emit_c.kernel import KernelRequest, build_many
from tcpx.payload.evaluator import Array, evaluate_func
from tcpx.payload.ir import Module
from tcpx.payload.text.parser import parse
from tcpx.payload.text.printer import print_module
from tcpx.target.loader import load_target
from tcpx.transform.language.loader import Program
from tests import guard_pages
from tests.outside.declarations import Declaration, Drawn, declared

DECLARATIONS, GROUPS = 60, 12
GROUP = DECLARATIONS // GROUPS
SIZES: tuple[Mapping[str, int], ...] = (
    {"I": 7, "J": 5, "L": 3, "R": 6, "T": 4, "S": 9, "V": 5},
    {"I": 1, "J": 2, "L": 1, "R": 1, "T": 2, "S": 1, "V": 1},
    {"I": 0, "J": 3, "L": 2, "R": 5, "T": 1, "S": 2, "V": 3},
    {"I": 3, "J": 17, "L": 1, "R": 0, "T": 3, "S": 0, "V": 2},
)
TILES = {"i": 3, "j": 5, "l": 2, "r": 5, "t": 3, "s": 5}
LANES = 8
REFUSED: Mapping[int, tuple[str, ...]] = {
    8: ("peeled",),
    13: ("vectorized",),
    22: ("fused as a consumer",),
    28: ("fused as a consumer", "vectorized"),
    31: ("vectorized",),
    39: ("fused as a consumer",),
    41: ("fused as a consumer",),
    44: ("peeled",),
    46: ("vectorized",),
}
"""The columns of declarations that are refused."""


def _tiles(drawn: Declaration, names: tuple[str, ...], sizes: Mapping[str, int]) -> str:
    """Tiles of dims in the order of iterations; where partial results keep theirs, of one but of the last reduction."""
    reduced = [name for name in names if drawn.kinds[name].value == "reduction"]
    in_order = reduced[:-1] if not drawn.is_commutative else []
    return f"[{', '.join(f'{name}: {1 if name in in_order else sizes[name]}' for name in names)}]"


def _loops(dims: tuple[str, ...]) -> str:
    return ", ".join(f"a{k}" for k in range(len(dims)))


def columns(drawn: Declaration) -> Mapping[str, str]:
    """The schedules that make sense for a declaration, by what they do."""
    cut = drawn.cut
    made = {"as it is": ""}
    last = f"a{len(cut) - 1}"
    if cut:
        tiled = f"let {_loops(cut)} = tile(v, {_tiles(drawn, cut, TILES)}"
        made["tiled"] = f"{tiled})"
        made["padded"] = f"{tiled}, tail: pad)"
        made["peeled"] = f"let {_loops(cut[-2:])} = tile(v, {_tiles(drawn, cut[-2:], TILES)}, tail: peel)"
        made["producer fused"] = f"{tiled})\nfuse(p, into: {last}, recompute: true)"
    parallel = [name for name in cut if drawn.kinds[name].value == "parallel"]
    outer = [k for k, name in enumerate(drawn.names()) if name in parallel]
    if outer:
        first = drawn.names()[outer[0]]
        made["threads"] = f"let a = tile(v, [{first}: 2], parallel: true)"
        made["consumer fused"] = f"let a = tile(v, [{first}: 3])\nfuse(c, into: a)"
        dims = ", ".join(f"d{k}: {3 + 2 * n}" for n, k in enumerate(outer))
        loops = ", ".join(f"b{k}" for k in outer)
        made["fused as a producer"] = f"let {loops} = tile(c, [{dims}])\nfuse(v, into: b{outer[-1]}, recompute: true)"
    read = [e.dim for e in drawn.operands[0].map]
    shared = [k for k, name in enumerate(read) if name in parallel and name not in drawn.declared]
    if shared and None not in read and len({*read}) == len(read):
        made["fused as a consumer"] = f"let a = tile(p, [d{shared[0]}: 3])\nfuse(v, into: a)"
    if not drawn.is_irregular and drawn.is_commutative and parallel:
        cut = (*(name for name in cut if name != parallel[-1]), parallel[-1])
    if len(cut) == len(drawn.kinds) and drawn.kinds[cut[-1]].value == "parallel":
        sizes = {name: LANES if name == cut[-1] else 2 if name == cut[0] else 1 for name in cut}
        made["vectorized"] = f"let {_loops(cut)} = tile(v, {_tiles(drawn, cut, sizes)}, tail: pad)\nvectorize({last})"
    return made


def _program(steps: str) -> Program:
    used = [name for name in "vpc" if any(text in steps for text in (f"({name},", f"({name})"))]
    lets = [f'let {name} = match one "{name}" in root' for name in used]
    return tcpx.parse_schedule("language 1\nschedule s(root: func) {\n" + "\n".join([*lets, steps]) + "\n}\n")


@cache
def _module(number: int) -> Module:
    return parse(declared(number).drawn.payload())


@cache
def _cases(number: int) -> list[tuple[list[Array], tuple[Array, ...]]]:
    """Arguments at each of the sizes that there are for the declaration, and what its own loop gives."""
    drawn, module = declared(number).drawn, _module(number)
    different = {tuple(sizes[s] for s in drawn.symbols): sizes for sizes in SIZES}
    given = [drawn.arguments({s: sizes[s] for s in drawn.symbols}) for sizes in different.values()]
    return [(arrays, evaluate_func(module, module.main, arrays)) for arrays in given]


Kernels = dict[tuple[int, str], tcpx.Kernel]
Refusals = dict[tuple[int, str], tcpx.Diagnostic]


@cache
def _kernels(group: int) -> tuple[Kernels, Refusals]:
    """The columns of a group of declarations; what is not refused is compiled into a library without threads, and one
    with them."""
    target, made, refused = load_target("native"), Kernels(), Refusals()
    for threads in (1, 2):
        requests: dict[tuple[int, str], KernelRequest] = {}
        for number in _numbers(group):
            for name, steps in columns(declared(number).drawn).items():
                if (name == "threads") != (threads == 2):
                    continue
                request = tcpx.CompileRequest(_module(number), _program(steps), name=f"op{number}_{len(requests)}")
                try:
                    run = lowered(request, target, threads)
                except tcpx.TcpxError as error:
                    refused[number, name] = error.diagnostic
                else:
                    requests[number, name] = KernelRequest(run.module, request.name, run.trace, request.schedule)
        made |= zip(requests, build_many([*requests.values()], target, threads), strict=True)
    return made, refused


def _numbers(group: int) -> range:
    return range(GROUP * group, GROUP * (group + 1))


def _guarded(kernel: tcpx.Kernel, number: int) -> list[str]:
    """At which sizes the kernel gives something else than the plain loop."""
    wrong: list[str] = []
    for arrays, wanted in _cases(number):
        found = guard_pages.run_guarded(kernel, *arrays)
        if not all(guard_pages.same_numbers(a, b) for a, b in zip(found, wanted, strict=True)):
            wrong.append(f"{[x.shape for x in arrays]}: {found} for {wanted}")
    return wrong


@pytest.mark.parametrize("group", range(GROUPS))
def test_text_and_evaluation(group: int) -> None:
    """A declaration is printed and parsed, and evaluates as the generic does that is made of it."""
    for number in _numbers(group):
        module = _module(number)
        assert print_module(parse(print_module(module))) == print_module(module)
        general = tcpx.apply_schedule(module, _program("let g = generalize(v)")).module
        assert not any(isinstance(op, Drawn) for op in general.main.walk())
        for arrays, wanted in _cases(number):
            found = evaluate_func(general, general.main, arrays)
            assert all(guard_pages.same_numbers(a, b) for a, b in zip(found, wanted, strict=True)), number


@pytest.mark.parametrize("group", range(GROUPS))
def test_columns(group: int) -> None:
    kernels, refused = _kernels(group)
    for (number, name), diagnostic in refused.items():
        assert diagnostic.schedule is not None, (number, name, diagnostic)
        assert diagnostic.payload is not None, (number, name, diagnostic)
    assert {*refused} == {(n, name) for n in _numbers(group) for name in REFUSED.get(n, ())}, refused
    wrong = {key: _guarded(kernel, key[0]) for key, kernel in kernels.items()}
    assert not {key: found for key, found in wrong.items() if found}


def test_most_columns_apply() -> None:
    """Of all, four fifths; of each, half of those for which it makes sense."""
    sense = Counter(name for n in range(DECLARATIONS) for name in columns(declared(n).drawn))
    refused = Counter(name for names in REFUSED.values() for name in names)
    assert refused.total() <= 0.2 * sense.total()
    assert all(refused[name] <= 0.5 * count and count >= DECLARATIONS // 4 for name, count in sense.items()), sense
