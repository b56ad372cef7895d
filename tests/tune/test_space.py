"""Search spaces: what counts, what constraints leave, how points are found."""

from __future__ import annotations

import random
from itertools import islice

import pytest

import tcpx
from tcpx.installed import LIBRARY
from tcpx.tune.space import Space, Value, point_key
from tests.tune.conftest import MakeSpace, is_allowed, schedule_text

TILES = """
let mm = match one contract in root
knob mr: int = 4 in 1..6   /// rows
knob mc: int = 2 * mr in multiples(mr, 24)
require mr + mc <= 16 "too many rows"
tile(mm, [m: mc])
tile(mm, [m: mr])
"""


def points(space: Space) -> list[dict[str, Value]]:
    return [dict(point) for point in space.points()]


def test_domains_follow_earlier_knobs_and_constraints_hold(make_space: MakeSpace) -> None:
    space = make_space(TILES)
    found = points(space)
    assert found == [{"s.mr": mr, "s.mc": mc} for mr in range(1, 7) for mc in range(mr, 25, mr) if mr + mc <= 16]
    assert space.defaults() == {"s.mr": 4, "s.mc": 8}
    assert space.variables[0].documentation == "rows"
    assert space.is_conditional
    assert space.killed["too many rows"]


def test_points_are_those_that_the_schedule_takes(make_space: MakeSpace, module: tcpx.Module) -> None:
    space = make_space(TILES)
    schedule = tcpx.parse_schedule(schedule_text(TILES))
    valid = {point_key(point) for point in points(space)}
    for mr in range(1, 7):
        for mc in range(1, 25):
            point = {"s.mr": mr, "s.mc": mc}
            try:
                tcpx.apply_schedule(module, schedule, params=point, target="generic")
            except tcpx.ScheduleError:
                assert point_key(point) not in valid
            else:
                assert point_key(point) in valid


def test_a_sparse_space_is_sampled(make_space: MakeSpace) -> None:
    body = "\n".join(f"knob k{i}: int = 1 in 1..10" for i in range(9))
    near = "\n".join(f"require k{i} * k{i + 1} <= 6" for i in range(8))
    total = " + ".join(f"k{i}" for i in range(9))
    space = make_space(
        f"{body}\n{near}\nrequire {total} == 15\nlet mm = match one contract in root\ntile(mm, [m: {total}])"
    )
    generator = random.Random(1)
    found = [space.sample(generator) for _ in range(40)]
    assert all(point is not None and is_allowed(space, point) for point in found)
    assert len({point_key(point) for point in found if point is not None}) > 20
    assert sum(space.killed.values()) < 100_000


def test_knobs_of_a_block_that_is_not_chosen_do_not_count(make_space: MakeSpace) -> None:
    space = make_space(
        """
let mm = match one contract in root
tune {
  knob a: int = 2 in 1..3
  tile(mm, [m: a])
} or {
  knob b: int = 2 in 1..4
  tune { tile(mm, [n: b]) } or { tile(mm, [k: b]) }
}
tune { tile(mm, [k: 4]) } or { tile(mm, [k: 8]) }
"""
    )
    found = points(space)
    assert len(found) == (3 + 4 * 2) * 2
    assert {tuple(sorted(point)) for point in found} == {
        ("s.a", "s.tune1", "s.tune3"),
        ("s.b", "s.tune1", "s.tune2", "s.tune3"),
    }


def test_params_number_the_tunes_that_run(make_space: MakeSpace, module: tcpx.Module) -> None:
    body = """
let mm = match one contract in root
tune { tile(mm, [m: 4]) } or { tune { tile(mm, [n: 4]) } or { tile(mm, [n: 8]) } }
tune { tile(mm, [k: 4]) } or { tile(mm, [k: 8]) }
"""
    space = make_space(body)
    schedule = tcpx.parse_schedule(schedule_text(body))
    texts = set()
    for point in space.points():
        run = tcpx.apply_schedule(module, schedule, params=space.params(point), target="generic")
        texts.add(" ".join(entry.statement for entry in run.trace.entries))
    assert len(texts) == len(points(space)) == 6


def test_uses_of_one_structure_are_one_coordinate() -> None:
    payload = """\
func @f(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %a = tcp.matmul(%x, %w) : tensor<8x8xf32>
  %b = tcp.matmul(%a, %w) : tensor<8x8xf32>
  tcp.return(%b)
}
"""
    before = """
sequence rows(mm: op<contract>) {
  knob mr: int = 2 in 1..4
  knob separate kc: int = 2 in 1..3
  tile(mm, [m: mr, k: kc])
}
"""
    schedule = tcpx.parse_schedule(schedule_text("for mm in match some contract in root { rows(mm) }", before))
    space = Space(tcpx.search_space(tcpx.parse(payload), schedule, target="generic"))
    assert [v.path for v in space.variables] == ["s/a/rows.mr", "s/a/rows.kc", "s/b/rows.kc"]
    assert len(points(space)) == 36


def test_functions_conditions_and_parameters_are_followed(make_space: MakeSpace) -> None:
    before = """
function half(a: int, b: int = 2) -> int = a / b
sequence rows(mm: op<contract>, height: int) {
  knob step: int = 1 in 1..half(height)
  if step > 2 { knob wide: bool = false
    tile(mm, [n: 8 if wide else 4]) }
  tile(mm, [m: height])
  tile(mm, [m: step])
}
"""
    space = make_space("knob h: int = 8 in [2, 8]\nlet mm = match one contract in root\nrows(mm, 2 * half(h))", before)
    found = [tuple(point.values()) for point in space.points()]
    assert found == [(2, 1), (8, 1), (8, 2), (8, 3, False), (8, 3, True), (8, 4, False), (8, 4, True)]


def test_functions_of_handles_and_knobs(make_space: MakeSpace) -> None:
    before = "function depth(mm: op<contract>, along: dim, parts: int) -> int = size(mm.k) / parts"
    space = make_space(
        "let mm = match one contract in root\nknob parts: int = 2 in [2, 4]\n"
        "knob kc: int = depth(mm, k, parts) in [8, 16, 32]\ntile(mm, [k: kc])",
        before,
    )
    assert [v.default.is_guess for v in space.variables] == [False, False]
    assert space.defaults() == {"s.parts": 2, "s.kc": 32}
    assert space.nearest_to({"s.parts": 4}) == {"s.parts": 4, "s.kc": 16}


def test_pinned_knobs_are_no_coordinates(make_space: MakeSpace) -> None:
    space = make_space(TILES, params={"mr": 3})
    assert [v.path for v in space.variables] == ["s.mc"]
    assert [point["s.mc"] for point in space.points()] == [3, 6, 9, 12]


def test_a_pin_outside_a_domain_that_no_knob_decides_is_an_error(make_space: MakeSpace) -> None:
    with pytest.raises(tcpx.ScheduleError) as refused:
        make_space(TILES, params={"mr": 7})
    assert refused.value.diagnostic.message == "the value of the knob `mr` is not in its domain"
    assert (refused.value.diagnostic.required, refused.value.diagnostic.found) == ("1, 2, 3, 4, 5, 6", "7")


@pytest.mark.parametrize(("mc", "rows"), [(9, [1, 3]), (10, [1, 2, 5]), (8, [1, 2, 4])])
def test_a_pin_leaves_the_values_whose_domain_has_it(make_space: MakeSpace, mc: int, rows: list[int]) -> None:
    space = make_space(TILES, params={"mc": mc})
    assert points(space) == [{"s.mr": mr} for mr in rows]


def test_a_pin_outside_its_domain_in_an_alternative_leaves_the_others(make_space: MakeSpace) -> None:
    body = "knob wide: bool = true in [true, false]\nlet mm = match one contract in root\n"
    body += "if wide { knob mr: int = 4 in [2, 4]\ntile(mm, [m: mr]) } else { tile(mm, [m: 3]) }"
    assert points(make_space(body, params={"mr": 4})) == [{"s.wide": True}, {"s.wide": False}]
    assert points(make_space(body, params={"mr": 3})) == [{"s.wide": False}]


def test_a_knob_of_a_dtype_is_searched_by_its_name(make_space: MakeSpace) -> None:
    body = "knob of: dtype = f32 in [f32, bf16]\nknob wide: bool = true\nrequire of == f32 or not wide\n"
    body += "let mm = match one contract in root\ntile(mm, [n: lanes(of), m: 4 if wide else 8])"
    found = points(make_space(body))
    assert found == [{"s.of": of, "s.wide": w} for of in ("f32", "bf16") for w in (False, True) if of == "f32" or not w]
    assert points(make_space(body, params={"of": "bf16"})) == [{"s.wide": False}]


@pytest.mark.parametrize(
    ("knob", "values"),
    [("size(mm.m)", []), ("size(mm.m) in [4, size(mm.m)]", []), ("4 in [4, 8, size(mm.m)]", [4, 8])],
)
def test_a_size_that_symbols_decide_is_no_value_to_search(make_space: MakeSpace, knob: str, values: list[int]) -> None:
    space = make_space(f"let mm = match one contract in root\nknob rows: size = {knob}\ntile(mm, [m: rows])")
    assert points(space) == ([{"s.rows": value} for value in values] or [{}])


def test_bad_defaults_are_said_and_do_not_empty_the_space(make_space: MakeSpace) -> None:
    space = make_space(TILES.replace("= 2 * mr in", "= 6 * mr in"))
    assert space.search.refusal is not None
    assert "too many rows" in space.search.refusal.message
    assert space.defaults() == {"s.mr": 4, "s.mc": 12}


def test_no_knobs_and_one_point(make_space: MakeSpace) -> None:
    assert points(make_space("let mm = match one contract in root\ntile(mm, [m: 4])")) == [{}]
    body = "knob mr: int = 4 in [4]\nlet mm = match one contract in root\ntile(mm, [m: mr])"
    assert points(make_space(body)) == [{"s.mr": 4}]


def test_knobs_of_a_refused_block_are_no_coordinates(make_space: MakeSpace) -> None:
    """What a step does to the payload refuses the block; no other knob may change that."""
    block = "let l = tile(mm, [m: 4])\n  require len(mm) > 1\n  knob mr: int = 2 in 1..3\n  tile(mm, [m: mr])"
    space = make_space(f"let mm = match one contract in root\ntry {{\n  {block}\n}} else {{ tile(mm, [m: 8]) }}")
    assert points(space) == [{}]


def test_neighbours_are_points_that_differ(make_space: MakeSpace) -> None:
    space = make_space(TILES)
    start = {"s.mr": 4, "s.mc": 8}
    found = list(islice(space.neighbours(start, random.Random(0)), 30))
    assert all(is_allowed(space, point) for point in found)
    assert all(point != start for point in found)
    assert {point["s.mr"] for point in found} > {4}


def test_what_steps_decide_is_left_to_the_run(make_space: MakeSpace) -> None:
    space = make_space(
        """
let mm = match one contract in root
knob kb: int = 32 in [16, 32]
let pc = tile(mm, [k: kb])
require size(mm.k) == kb
knob kc: int = 8 in pow2(4, size(mm.k))
tile(mm, [k: kc])
"""
    )
    assert [v.path for v in space.variables] == ["s.kb", "s.kc"]
    assert not space.search.constraints
    assert len(points(space)) == 2 * 5


def test_a_schedule_that_is_wrong_is_refused(make_space: MakeSpace) -> None:
    with pytest.raises(tcpx.ScheduleError, match="nope"):
        make_space("let mm = match one nope in root\ntile(mm, [m: 4])")


def test_a_tune_in_a_loop_keeps_its_number(module: tcpx.Module) -> None:
    body = """
for x in match some op in root {
  tune { print(x) } or { print(x, as: text) }
  tune { print(x) } or { print(x, as: text) }
}
"""
    schedule = tcpx.parse_schedule(schedule_text(body))
    run = tcpx.apply_schedule(module, schedule, target="generic")
    assert {use.path for use in run.knobs} == {"s.tune1", "s.tune2"}
    assert len(points(Space(tcpx.search_space(module, schedule, target="generic")))) == 4


BRANCHES = """
knob all: int = 1 in 1..2
let mm = match one contract in root
let i = tile(match one op in root where name == "y", [d1: all])
specialize mm when size(mm.m) < 8 { small(mm) }
else when size(mm.m) < 100 { middle(mm) }
else { large(mm) }
"""
SEQUENCES = """
sequence small(x: op) {
  knob a: int = 1 in 1..3
  tile(x, [m: a])
}
sequence middle(x: op) {
  knob b: int = 1 in 1..3
  specialize x when size(x.m) == 50 { small(x) } else { tile(x, [m: b]) }
}
sequence large(x: op) {
  knob c: int = 1 in 1..3
  tile(x, [m: c])
}
"""


@pytest.mark.parametrize(
    ("sizes", "names"),
    [
        ([], ["all", "a", "b", "c"]),
        ([4], ["all", "a"]),
        ([4, 8], ["all", "a", "b"]),
        ([50], ["all", "a", "b"]),
        ([1000, 7], ["all", "a", "c"]),
    ],
)
def test_knobs_of_versions_that_no_size_takes(module: tcpx.Module, sizes: list[int], names: list[str]) -> None:
    schedule = tcpx.parse_schedule(schedule_text(BRANCHES, SEQUENCES), "s.tcps")
    held = [{"N": size} for size in sizes]
    found = tcpx.search_space(module, schedule, target="generic", sizes=held)
    assert [variable.name for variable in found.variables] == names
    assert len(found.untaken) == 4 - len(names)


def test_a_condition_that_steps_may_have_changed_leaves_no_version_out(module: tcpx.Module) -> None:
    body = "let mm = match one contract in root\ntile(mm, [m: 4])\nspecialize mm when size(mm.m) < 8 { small(mm) }\n"
    schedule = tcpx.parse_schedule(schedule_text(body + "else { large(mm) }", SEQUENCES), "s.tcps")
    found = tcpx.search_space(module, schedule, target="generic", sizes=[{"N": 64}])
    assert "a" in [variable.name for variable in found.variables]


def test_knobs_behind_steps_have_the_domains_of_the_run() -> None:
    """A softmax is taken apart before its rows are scheduled: no statement without a step knows of them."""
    module = tcpx.parse("""\
func @f(%x: tensor<64x512xf32>) -> tensor<64x512xf32> {
  %y = tcp.softmax(%x) {dim = 1} : tensor<64x512xf32>
  tcp.return(%y)
}
""")
    default = tcpx.load_schedule(LIBRARY / "default.tcps")
    found = {v.path.rpartition("/")[2]: (v.items({}), v.default_value({})) for v in
             tcpx.search_space(module, default, target="x86_avx512").variables}  # fmt: skip
    knobs = {"rows.nr": ((1, 2, 4, 8), 1), "reduce_row.nv": ((1, 2, 4, 8), 4), "in_vectors.nv": ((1, 2, 4, 8), 4)}
    assert found == knobs
