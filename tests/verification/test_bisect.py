"""The step that broke the numbers is named, wherever it stands; where none did, that is said."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tcpx
from tcpx.verification.numbers import Mismatch
from tests.verification.planted import drop_last

__all__ = ["drop_last"]

PAYLOAD = """\
func @chain(%x: tensor<[N]xf32>, %y: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N: 0..] {
  %a = tcp.add(%x, %y) : tensor<[N]xf32>
  %b = tcp.mul(%a, %y) : tensor<[N]xf32>
  %c = tcp.sub(%b, %x) : tensor<[N]xf32>
  %d = tcp.max(%c, %y) : tensor<[N]xf32>
  tcp.return(%d)
}
"""
STATEMENTS = (
    "let i = tile(a, [d0: 4])",
    "let j = tile(b, [d0: 8])",
    "let k = tile(c, [d0: 2])",
    "let l = tile(d, [d0: 16])",
    "let ii = tile(a, [d0: 2])",
    "let jj = tile(b, [d0: 4])",
    "let ll = tile(d, [d0: 8])",
    "bufferize(root)",
    "peel(i)",
    "peel(j)",
    "peel(k)",
    "peel(l)",
    "optional canonicalize(root)",
    "optional cse(root)",
    "optional dce(root)",
)
POSITIONS = range(len(STATEMENTS) + 1)


def schedule(*statements: str) -> tcpx.Schedule:
    lines = [*(f'let {name} = match one elementwise "{name}" in root' for name in "abcd"), *statements]
    return tcpx.parse_schedule("language 1\nschedule s(root: func) {\n  " + "\n  ".join(lines) + "\n}\n")


def planted(position: int) -> tcpx.Schedule:
    return schedule(*STATEMENTS[:position], "drop_last(root)", *STATEMENTS[position:])


def test_positions() -> None:
    assert len(POSITIONS) == 16
    assert 0 < STATEMENTS.index("bufferize(root)") < 15


@pytest.mark.usefixtures("drop_last")
@pytest.mark.parametrize("position", POSITIONS)
def test_the_planted_step_is_named(position: int) -> None:
    found = tcpx.bisect(tcpx.parse(PAYLOAD), planted(position), target="generic")
    assert found.wrong is not None
    assert found.wrong.step.transform == "drop_last"
    assert found.probes <= 2 + math.ceil(math.log2(found.steps))
    (size,) = (size for _, size in found.wrong.mismatch.case.sizes)
    assert size % 2 == 1
    assert found.wrong.mismatch.index == (size - 1,)
    shown = found.wrong.diagnostic().render()
    assert f"<schedule>:{7 + position}:3 (schedule)" in shown
    assert "changes the numbers" in shown


@pytest.mark.usefixtures("drop_last")
@pytest.mark.parametrize("position", [0, 7, 8, 15])
def test_every_step_before_it_verifies(position: int) -> None:
    seen: list[str] = []
    found = tcpx.verify_steps(
        tcpx.parse(PAYLOAD), planted(position), target="generic", on_step=lambda step: seen.append(step.transform)
    )
    assert found.wrong is not None
    assert found.wrong.step.transform == "drop_last"
    assert "drop_last" not in seen
    assert len(seen) == found.wrong.step.index


@pytest.mark.usefixtures("drop_last")
def test_a_step_that_a_try_took_back_is_not_named() -> None:
    tried = "try { drop_last(root)\n peel(l) } else { let m = tile(a, [d0: 3]) }"
    found = tcpx.bisect(tcpx.parse(PAYLOAD), schedule(STATEMENTS[3], tried), target="generic")
    assert found.wrong is not None
    assert found.wrong.step.transform == "drop_last"
    undone = "try { drop_last(root)\n let m = tile(a, [d0: 0]) } else { let m = tile(a, [d0: 3]) }"
    found = tcpx.bisect(tcpx.parse(PAYLOAD), schedule(undone), target="generic")
    assert found.wrong is None


def test_nothing_is_wrong() -> None:
    found = tcpx.bisect(tcpx.parse(PAYLOAD), schedule(*STATEMENTS), target="generic")
    assert (found.wrong, found.kernel, found.diagnostic()) == (None, None, None)
    assert found.probes == 1
    sizes = {size for case in found.cases for _, size in case.sizes}
    assert {0, 1, 3, 7, 13, 4, 5, 9, 16, 17, 33} <= sizes
    assert any(case.special for case in found.cases)


@pytest.mark.usefixtures("drop_last")
def test_even_sizes_do_not_show_it() -> None:
    found = tcpx.bisect(tcpx.parse(PAYLOAD), planted(4), target="generic", sizes=[{"N": 8}], run_kernel=False)
    assert found.wrong is None


def test_a_schedule_that_fails_is_its_own_diagnostic() -> None:
    with pytest.raises(tcpx.ScheduleError):
        tcpx.bisect(tcpx.parse(PAYLOAD), schedule("let i = tile(a, [d0: 0])"), target="generic")


@pytest.mark.parametrize("sizes", [{"N": 8}, [{"N": 8}], ({"N": np.int64(8)},)])
def test_sizes_are_one_mapping_or_several(sizes: Any) -> None:
    module = tcpx.parse(PAYLOAD)
    found = tcpx.bisect(module, schedule(*STATEMENTS), target="generic", sizes=sizes, run_kernel=False)
    assert {case.sizes for case in found.cases} == {(("N", 8),)}
    assert tcpx.verify_steps(module, schedule(*STATEMENTS), target="generic", sizes=sizes).cases[0].sizes == (("N", 8),)
    assert tcpx.search_space(module, schedule(*STATEMENTS), target="generic", sizes=sizes).variables == ()


UNUSABLE: dict[str, tuple[object, str, str]] = {
    "a number": (8, "a mapping such as {'M': 64}, or a list of them", "8"),
    "a text": ("N=8", "a mapping such as {'M': 64}, or a list of them", '"N=8"'),
    "a list of numbers": ([8], "a mapping such as {'M': 64}", "8"),
    "pairs": ([("N", 8)], "a mapping such as {'M': 64}", "something of the Python type tuple"),
    "a text for a number": ({"N": "8"}, "a whole number for `N`, or another size that has one", '"8"'),
    "half a number": ([{"N": 8.5}], "a whole number for `N`", "8.5"),
    "a truth value": ({"N": True}, "a whole number for `N`", "true"),
    "a number for a name": ({8: 8}, "the names of symbols", "8"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_what_are_no_sizes(case: str) -> None:
    sizes, required, found = UNUSABLE[case]
    given: Any = sizes
    module = tcpx.parse(PAYLOAD)
    for run in (tcpx.bisect, tcpx.verify_steps, tcpx.search_space):
        with pytest.raises(tcpx.ArgumentError) as caught:
            run(module, schedule(*STATEMENTS), target="generic", sizes=given)
        diagnostic = caught.value.diagnostic
        assert (diagnostic.message, diagnostic.required, diagnostic.found) == ("these are no sizes", required, found)


def test_sizes_of_inputs_and_reports() -> None:
    module = tcpx.parse(PAYLOAD)
    kernel = tcpx.compile(module, target="generic")
    given: Any = "N=8"
    for run in (lambda: tcpx.random_inputs(module, sizes=given), lambda: kernel.report(given)):
        with pytest.raises(tcpx.ArgumentError, match="these are no sizes"):
            run()
    numpy_number: Any = np.int64(8)
    assert kernel.workspace_bytes({"N": numpy_number}) == kernel.workspace_bytes({"N": 8})


def test_the_compiled_c_is_said_to_be_wrong() -> None:
    """No kernel that is compiled is, so this is told of one that would be."""
    found = tcpx.bisect(tcpx.parse(PAYLOAD), schedule(*STATEMENTS), target="generic", run_kernel=False)
    wrong = replace(found, kernel=Mismatch(found.cases[0], total=1, wrong=1)).diagnostic()
    assert wrong is not None
    assert wrong.message == "every step keeps the numbers, but the compiled C does not"
    assert wrong.found is not None
