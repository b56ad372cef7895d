"""What reads of a destination just what was yielded reads the value: before the first step, in any payload."""

from __future__ import annotations

import random

import pytest

import tcpx
from tcpx.payload.ir import Module
from tcpx.payload.ops.gml_st import Materialize, StYield
from tests.transform.payloads import check_same, run

ADD = "%a = tcp.add(%d, %v) : tensor<[N]xsi32>\n"


def program(body: str, second: str = "", extent: str = "N") -> str:
    """A function with a loop over one state of [extent], or two."""
    states, kind = ["d", *second.split()], f"tensor<[{extent}]xsi32>"
    types = ", ".join([kind] * len(states))
    return f"""\
func @f({", ".join(f"%{s}0: {kind}" for s in states)}, %v: {kind}, %k: tensor<[K]xsi32>, %n: tensor<[N]xsi32>)
    -> {types if len(states) == 1 else f"({types})"} symbols [N: 0.., K: 0..] {{
  {", ".join(f"%{s}1" for s in states)} = gml_st.for %t in 0 to K step 1 ({", ".join(f"%{s} = %{s}0" for s in states)}) {{
{body}
  }} : {types}
  tcp.return({", ".join(f"%{s}1" for s in states)})
}}
"""  # noqa: E501


def count(module: Module, kind: type[Materialize] | type[StYield]) -> int:
    return sum(isinstance(op, kind) for op in module.walk())


CASES = {
    "two updates are one": (
        program(f"{ADD}gml_st.yield(%a, %d) full\n%b = tcp.mul(%d, 2) : tensor<[N]xsi32>\ngml_st.yield(%b, %d) full"),
        0, 1),
    "a part that was yielded": (
        program(f"{ADD}%p = gml_st.materialize(%a) tile [0] [1] : tensor<1xsi32>\ngml_st.yield(%p, %d) tile [0] [1]\n"
                "%q = gml_st.materialize(%d) tile [0] [1] : tensor<1xsi32>\n%r = tcp.mul(%q, 3) : tensor<1xsi32>\n"
                "gml_st.yield(%r, %d) tile [0] [1]").replace("N: 0..", "N: 1.."), 1, 1),
    "another part": (
        program(f"{ADD}%p = gml_st.materialize(%a) tile [0] [1] : tensor<1xsi32>\ngml_st.yield(%p, %d) tile [1] [1]\n"
                "%q = gml_st.materialize(%d) tile [0] [1] : tensor<1xsi32>\n%r = tcp.mul(%q, 3) : tensor<1xsi32>\n"
                "gml_st.yield(%r, %d) tile [1] [1]").replace("N: 0..", "N: 2.."), 3, 2),
    "another state, which changes": (
        program("gml_st.yield(%e, %d) full\n%b = tcp.add(%e, %v) : tensor<[N]xsi32>\ngml_st.yield(%b, %e) full\n"
                "%c = tcp.add(%d, %e) : tensor<[N]xsi32>\ngml_st.yield(%c, %d) full", "e"), 1, 3),
    "a loop between": (
        program(f"{ADD}gml_st.yield(%a, %d) full\n"
                "%i1 = gml_st.for %i in 0 to 2 step 1 (%f = %d) {\n%g = tcp.add(%f, %d) : tensor<[N]xsi32>\n"
                "gml_st.yield(%g, %f) full\n} : tensor<[N]xsi32>\n"
                "%b = tcp.sub(%i1, %d) : tensor<[N]xsi32>\ngml_st.yield(%b, %d) full"), 0, 2),
    "the last yield stays": (program(f"{ADD}gml_st.yield(%a, %d) full\n%b = tcp.add(%a, %d) : tensor<[N]xsi32>\n"
                                     "gml_st.yield(%b, %e) full", "e"), 0, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_was_yielded_is_read_as_a_value(name: str) -> None:
    text, reads, yields = CASES[name]
    done = run(text, 'emit_remark(root, "nothing")')
    sizes = [{"N": n, "K": k} for n in (0, 1, 5) for k in (0, 1, 3) if n >= done.module.main.symbols[0].lower]
    check_same(text, done.module, sizes)
    assert (count(done.module, Materialize), count(done.module, StYield)) == (reads, yields)


def random_program(seed: int) -> str:
    """Whole states and parts of them are read and yielded in any order."""
    chance = random.Random(seed)
    lines, known = list[str](), {"[N + 1]": ["%v"], "[N]": list[str]()}
    for number in range(12):
        state, shape = chance.choice("de"), chance.choice(list(known))
        part = "full" if shape == "[N + 1]" else f"tile [{chance.randint(0, 1)}] [N]"
        values = [*known[shape][-2:], *(["%d", "%e"] if shape == "[N + 1]" else [])]
        if chance.random() < 0.4 and values:
            lines.append(f"gml_st.yield({chance.choice(values)}, %{state}) {part}")
        elif chance.random() < 0.6 or not values:
            lines.append(f"%v{number} = gml_st.materialize(%{state}) {part} : tensor<{shape}xsi32>")
            known[shape].append(f"%v{number}")
        else:
            first, second = chance.choice(values), chance.choice(values)
            lines.append(f"%v{number} = tcp.sub({first}, {second}) : tensor<{shape}xsi32>")
            known[shape].append(f"%v{number}")
    lines += [f"gml_st.yield(%v, %{state}) full" for state in "de" if f", %{state}) " not in " ".join(lines)]
    return program("\n".join(lines), "e", "N + 1")


def test_random_loops() -> None:
    """Many of 40 programs lose reads or yields, and all compute the same."""
    fewer = 0
    for seed in range(40):
        text = random_program(seed)
        module = run(text, 'emit_remark(root, "nothing")').module
        before = tcpx.parse(text)
        fewer += count(module, StYield) < count(before, StYield) or count(module, Materialize) < count(
            before, Materialize
        )
        check_same(text, module, [{"N": 1, "K": 1}, {"N": 6, "K": 3}])
    assert fewer > 10
