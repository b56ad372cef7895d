"""skew: a loop that begins later in each iteration of the one around it."""

from __future__ import annotations

from itertools import product

import pytest

from tcpx.payload.ops.gml_st import Loop
from tests.transform.payloads import check, check_kernels, refusal, run

LOOPS = 'let v = match one "v" in root\nlet j = parent(v)\nlet i = parent(j)\n'
SIZES = [{"N": n, "M": m} for n, m in product((4, 6, 8, 13), (4, 7, 17))]


def sweep(north: tuple[int, int], west: tuple[int, int], steps: tuple[int, int] = (1, 1)) -> str:
    """A sweep over a grid that reads two elements at offsets, and the one that it writes."""
    reads = {"north": north, "west": west, "here": (0, 0)}
    lines = [
        f"%{name} = gml_st.materialize(%e) tile [%i + {a}, %j + {b}] [1, 1] : tensor<1x1xf32>"
        for name, (a, b) in reads.items()
    ]
    body = "\n".join(lines)
    return f"""\
func @f(%x: tensor<[N]x[M]xf32>) -> tensor<[N]x[M]xf32> symbols [N: 4.., M: 4..] {{
  %r = gml_st.for %i in 3 to N - 3 step {steps[0]} (%d = %x) {{
    %s = gml_st.for %j in 3 to M - 3 step {steps[1]} (%e = %d) {{
      {body}
      %b = tcp.add(%north, %west) : tensor<1x1xf32>
      %v = tcp.sub(%b, %here) : tensor<1x1xf32>
      gml_st.yield(%v, %e) tile [%i, %j] [1, 1]
    }} : tensor<[N]x[M]xf32>
    gml_st.yield(%s, %d) tile [0, 0] [N, M]
  }} : tensor<[N]x[M]xf32>
  tcp.return(%r)
}}
"""


SEIDEL = sweep((-1, 0), (0, -1))
CASES = {
    "alone": (SEIDEL, "skew(j)"),
    "by three": (SEIDEL, "skew(j, factor: 3)"),
    "twice": (SEIDEL, "skew(j)\nskew(j, factor: 2)"),
    "a wavefront": (SEIDEL, "skew(j)\nreorder([j, i])\nparallelize(i)"),
    "a wavefront of the south": (sweep((1, 0), (0, 1)), "skew(j)\nreorder([j, i])\nparallelize(i)"),
    "a row that is read ahead": (sweep((-1, 2), (0, -1)), "skew(j)\nreorder([j, i])\nparallelize(i)"),
    "two rows up": (sweep((-2, 1), (0, -2)), "skew(j)\nreorder([j, i])\nparallelize(i)"),
    "steps": (sweep((-2, 2), (0, -2), (2, 2)), "skew(j)\nreorder([j, i])\nparallelize(i)"),
    "and back": (SEIDEL, "skew(j)\nreorder([j, i])\nskew(i)"),
}


@pytest.mark.parametrize("name", CASES)
def test_computes_the_same(name: str) -> None:
    text, body = CASES[name]
    check(text, LOOPS + body, SIZES)


def test_kernels() -> None:
    check_kernels({name: (text, LOOPS + body) for name, (text, body) in CASES.items()}, SIZES)


@pytest.mark.parametrize(
    ("north", "west", "factor"),
    [
        ((-1, 0), (0, -1), 1),
        ((-1, 2), (0, -1), 3),
        ((-2, 1), (0, -2), 1),
        ((-2, 2), (0, 1), 2),
        ((-3, 1), (0, -1), 1),
        ((-3, 3), (0, -1), 2),
    ],
)
def test_the_least_factor(north: tuple[int, int], west: tuple[int, int], factor: int) -> None:
    text = sweep(north, west)
    least, given = (run(text, LOOPS + step).module.text() for step in ("skew(j)", f"skew(j, factor: {factor})"))
    assert least == given
    body = "reorder([j, i])\nparallelize(i)"
    check(text, f"{LOOPS}skew(j)\n{body}", SIZES)
    if factor > 1:
        refusal(text, f"{LOOPS}skew(j, factor: {factor - 1})\n{body}")


def test_a_loop_has_its_handle() -> None:
    done = run(SEIDEL, LOOPS + 'skew(j)\nreorder([j, i])\nrequire parent(v) == i and parent(i) == j "theirs"')
    assert [op.name for op in done.module.walk() if isinstance(op, Loop)] == ["j", "i"]


@pytest.mark.parametrize(
    ("payload", "body", "said"),
    [
        (SEIDEL, LOOPS + "skew(i)", ("no loop is around i", "a loop directly in another one", "func")),
        (SEIDEL, LOOPS + "skew(j, factor: 65)",
         ("j cannot begin 65 iterations later in each of i", "a factor in 1..64", "65")),
        (sweep((-2, 0), (0, -1), (2, 1)), LOOPS + "skew(j)",
         ("j cannot begin 1 iterations later in each of i", "a factor in 1..64, which makes 1 a multiple of 2", "1")),
        (sweep((-1, 0), (-1, 0), (2, 1)), LOOPS + "skew(j)",
         ("iterations of i within one of j are independent", "iterations that depend on each other",
          "j, which may stand around i")),
        (SEIDEL.replace("%i + -1, %j + 0] [1, 1]", "%i - 1, M - 4] [1, 1]"), LOOPS + "skew(j)",
         ("nothing limits how far j of one iteration of i is from what it reads of another",
          "accesses at distances with a bound", "tile [%i, %j] [1, 1] and tile [%i - 1, M - 4] [1, 1]")),
        (SEIDEL.replace("M - 3 step 1", "M - 3 step N"), LOOPS + "skew(j)",
         ("the steps of i and j are known only when the kernel runs", "steps that are numbers", "1 and N")),
    ],
)  # fmt: skip
def test_refused(payload: str, body: str, said: tuple[str, str, str]) -> None:
    found = refusal(payload, body)
    assert (found.message, found.required, found.found) == said


@pytest.mark.parametrize("declared", ["M: 0..40, K", "M, K", "M: 0..40, K: 0..30"])
def test_a_packed_operand_of_a_wavefront_reads_back(declared: str) -> None:
    """The buffer has as many rows as the inner loop has iterations at most."""
    text = f"""\
func @f(%x: tensor<[M]x[K]xf32>, %y: tensor<[M]x[K]xf32>) -> tensor<[M]x[K]xf32> symbols [{declared}] {{
  %v = tcp.add(%x, %y) : tensor<[M]x[K]xf32>
  tcp.return(%v)
}}
"""
    names = 'let v = match one "v" in root\nlet i, j = tile(v, [d0: 1, d1: 4])\n'
    sizes = [{"M": m, "K": k} for m, k in product((0, 1, 5), (0, 1, 7, 17))]
    check(text, f"{names}skew(j, factor: 2)\nreorder([j, i])\npack(v.lhs, layout: [])", sizes)
