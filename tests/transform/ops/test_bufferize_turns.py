"""bufferize: what an iteration would compute elsewhere and copy back is written to another slot of one array."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.ir import Operation
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.ops.memory import Copy
from tests.nets.turns import TurnsProgram
from tests.transform.bufferized import Bufferized, check_bufferized

SLOTS = "/slots"
STENCIL = """
func @f(%u: tensor<[N + 2]xf32>, %n: tensor<[N]xf32>, %s: tensor<[T]xf32>) -> tensor<[N + 2]xf32>
    symbols [N: 0.., T: 0..5] {
  %y = gml_st.for %t in LOWER to T step 1 (%d = %u) {
    %l = gml_st.materialize(%d) tile [0] [N] : tensor<[N]xf32>
    %c = gml_st.materialize(%d) tile [1] [N] : tensor<[N]xf32>
    %r = gml_st.materialize(%d) tile [2] [N] : tensor<[N]xf32>
    %cr = tcp.add(%c, %r) : tensor<[N]xf32>
    %x = tcp.sub(%cr, %l) : tensor<[N]xf32>
    gml_st.yield(%x, %d) tile [1] [N]
  } : tensor<[N + 2]xf32>
  tcp.return(%y)
}
"""


def has_slots(done: Bufferized) -> bool:
    return f"{SLOTS} in 0 to 1" in done.module.text()


def copies_in_loop(done: Bufferized) -> list[Operation]:
    """Copies that each iteration makes."""
    (steps,) = (op for op in done.module.walk() if isinstance(op, Loop) and op.var.name == "t")
    return [op for op in steps.walk() if isinstance(op, Copy)]


def loop(states: str, body: str) -> str:
    """A function with a loop over states of [N] from its arguments."""
    names = states.split()
    types = ", ".join(["tensor<[N]xsi32>"] * len(names))
    arguments = ", ".join(f"%{name}0: tensor<[N]xsi32>" for name in names)
    results = ", ".join(f"%{name}1" for name in names)
    inits = ", ".join(f"%{name} = %{name}0" for name in names)
    returned = types if len(names) == 1 else f"({types})"
    return f"""
func @f({arguments}, %s: tensor<[T]xsi32>) -> {returned} symbols [N: 0.., T: 0..5] {{
  {results} = gml_st.for %t in 0 to T step 1 ({inits}) {{
{body}
  }} : {types}
  tcp.return({results})
}}
"""


ADD = "%h = tcp.add(%p, %q) : tensor<[N]xsi32>"
SHIFTED = """
%low = gml_st.materialize(%p) tile [1] [N - 1] : tensor<[N - 1]xsi32>
%high = gml_st.materialize(%q) tile [0] [N - 1] : tensor<[N - 1]xsi32>
%sum = tcp.add(%low, %high) : tensor<[N - 1]xsi32>
%one = tcp.fill {value = 7} : tensor<1xsi32>
%h = tcp.concat(%sum, %one) {dim = 0} : tensor<[N]xsi32>
"""


@pytest.mark.parametrize("lower", ["0", "2"])
def test_a_stencil_reads_one_slot_and_writes_the_other(lower: str) -> None:
    done = check_bufferized(STENCIL.replace("LOWER", lower), exact=False)
    assert has_slots(done)
    assert not copies_in_loop(done)


def test_states_that_move_on_are_not_copied() -> None:
    done = check_bufferized(loop("p q", f"{ADD}\ngml_st.yield(%q, %p) full\ngml_st.yield(%h, %q) full"))
    assert has_slots(done)
    assert "2x[N]xsi32" in done.module.text()
    assert "3x[N]xsi32" not in done.module.text(), "the sum is written where it reads %p"


def test_states_that_move_on_and_are_read_shifted_have_one_slot_more() -> None:
    done = check_bufferized(
        loop("p q", f"{SHIFTED}\ngml_st.yield(%q, %p) full\ngml_st.yield(%h, %q) full").replace("N: 0..", "N: 1..")
    )
    assert "3x[N]xsi32" in done.module.text()


def test_three_states_change_places() -> None:
    body = "%k = gml_st.materialize(%p) full : tensor<[N]xsi32>\n"
    body += "gml_st.yield(%q, %p) full\ngml_st.yield(%r, %q) full\ngml_st.yield(%k, %r) full"
    done = check_bufferized(loop("p q r", body))
    assert has_slots(done)
    assert not copies_in_loop(done)


def test_state_that_is_turned_round_is_read_where_it_lies() -> None:
    body = "%now = gml_st.materialize(%p) full : tensor<[N]xsi32>\n"
    body += "%turned = tcp.reverse(%now) {dims = [0]} : tensor<[N]xsi32>\ngml_st.yield(%turned, %p) full"
    done = check_bufferized(loop("p", body))
    assert has_slots(done)
    assert not copies_in_loop(done)


@pytest.mark.parametrize(
    "body",
    [
        f"{ADD}\ngml_st.yield(%h, %q) full\ngml_st.yield(%q, %p) full",
        f"gml_st.yield(%q, %p) full\n{ADD}\ngml_st.yield(%h, %q) full",
        f"{ADD}\ngml_st.yield(%q, %p) full\ngml_st.yield(%p, %q) full",
        f"{ADD}\ngml_st.yield(%q, %p) full\ngml_st.yield(%h, %q) full\ngml_st.yield(%q, %p) full",
    ],
)
def test_what_is_read_after_a_yield_is_what_was_yielded(body: str) -> None:
    check_bufferized(loop("p q", body))


def test_a_part_that_moves_with_the_iteration_has_no_slots() -> None:
    text = STENCIL.replace("LOWER", "0").replace("yield(%x, %d) tile [1] [N]", "yield(%x, %d) tile [min(%t, 2)] [N]")
    assert not has_slots(check_bufferized(text, exact=False))


BOUND = """
func @f(%u: tensor<[N]xf32>, %ix: tensor<[T]xsi64> in 0 to 5) -> tensor<[N]xf32> symbols [T: 0..5, N: 8..] {
  %y = gml_st.for %t in 0 to T step 1 (%d = %u) {
    %i = gml_st.materialize(%ix) point [%t] : si64
    gml_st.bind(%i) {var = %k in 0 to 5}
    %e = gml_st.materialize(%d) tile [1] [3] : tensor<3xf32>
    gml_st.yield(%e, %d) tile [%k] [3]
  } : tensor<[N]xf32>
  tcp.return(%y)
}
"""


def test_a_part_that_moves_with_a_value_has_no_slots() -> None:
    assert not has_slots(check_bufferized(BOUND))
    found = tcpx.compile(tcpx.parse(BOUND), threads=1)(np.arange(8, dtype=np.float32), np.array([4, 0]))
    np.testing.assert_array_equal(found, [1, 2, 3, 3, 1, 2, 3, 7])


def test_compiled_stencils_keep_nan_and_copy_nothing_in_an_iteration() -> None:
    kernel = tcpx.compile(tcpx.parse(STENCIL.replace("LOWER", "0")), threads=1)
    assert not [remark for remark in kernel.remarks if "copies" in str(remark)]
    for n in (0, 1, 37):
        for steps in (0, 1, 2, 5):
            u = np.arange(n + 2, dtype=np.float32)
            u[n // 2] = np.nan
            u[-1] = np.inf
            wanted = u.copy()
            for _ in range(steps):
                with np.errstate(invalid="ignore"):
                    wanted[1:-1] = wanted[1:-1] + wanted[2:] - wanted[:-2]
            found = kernel(u, np.zeros(n, np.float32), np.zeros(steps, np.float32))
            assert np.array_equal(found, wanted, equal_nan=True)


def check_random_turns(seeds: range) -> int:
    """How many of these programs have slots."""
    return sum(has_slots(check_bufferized(TurnsProgram(seed).make(), extents=(0, 1, 3))) for seed in seeds)


def test_random_loops_over_states_in_turns() -> None:
    assert check_random_turns(range(12)) >= 3


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_more_random_loops_over_states_in_turns() -> None:
    assert check_random_turns(range(12, 400)) >= 50
