"""Knobs belong to uses; uses of one structure share a value; a block can be a knob."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import tcpx
from tcpx.assignment import Assignment, KnobNames, ParamValue
from tcpx.interp import Run, run_schedule
from tcpx.interp.knobs import KnobUse, KnobUses
from tcpx.payload.diagnostics import Diagnostic, Location, ScheduleError
from tcpx.payload.text.parser import parse
from tcpx.target import load_target
from tcpx.transform.language import program_of_text

PAYLOAD = """\
func @mlp(%x: tensor<[B]x64xf32>, %u: tensor<64x64xf32>, %v: tensor<64x64xf32>, %w: tensor<64x32xf32>) -> tensor<[B]x32xf32> symbols [B: 1..4096] {
  %fc1 = tcp.matmul(%x, %u) : tensor<[B]x64xf32>
  %fc2 = tcp.matmul(%fc1, %v) : tensor<[B]x64xf32>
  %fc3 = tcp.matmul(%fc2, %w) : tensor<[B]x32xf32>
  tcp.return(%fc3)
}
"""  # noqa: E501
SEQUENCE = """language 1
sequence rows(mm: op<contract>) {
  knob KIND mr: int = 6 in 1..14
  tile(mm, [m: mr])
}
schedule main(root: func) { for mm in match some contract in root { rows(mm) } }
"""
SHARED, SEPARATE = SEQUENCE.replace("KIND ", ""), SEQUENCE.replace("KIND", "separate")


def run(text: str, params: Mapping[str, ParamValue] | None = None) -> Run:
    return run_schedule(parse(PAYLOAD), program_of_text(text), load_target("generic"), params=params)


def refusal(text: str, params: Mapping[str, ParamValue]) -> Diagnostic:
    with pytest.raises(ScheduleError) as caught:
        run(text, params)
    return caught.value.diagnostic


def test_uses_of_one_structure_share_a_value() -> None:
    uses = run(SHARED, {"*/fc1/*.mr": 4}).knobs
    assert [(u.path, u.value, u.shares) for u in uses] == [
        ("main/fc1/rows.mr", 4, ""),
        ("main/fc2/rows.mr", 4, "main/fc1/rows.mr"),
        ("main/fc3/rows.mr", 6, ""),
    ]
    assert [u.overridden for u in uses] == [True, True, False]
    assert [u.value for u in run(SHARED, {"mr": 3}).knobs] == [3, 3, 3]
    assert [u.value for u in run(SHARED, {"*/fc[12]/*.mr": 3}).knobs] == [3, 3, 6]


def test_values_of_other_types() -> None:
    text = (
        "language 1\nschedule main(root: func) {\n  knob t: dtype = f32 in [f32, f64]\n  knob n: int = 4 in 1..8\n"
        '  require bytes(t) == 8 and n == 3 "set"\n}\n'
    )
    run(text, {"t": "f64", "n": np.int64(3)})  # pyright: ignore[reportArgumentType]
    found = refusal(text, {"t": "f65"})
    assert (found.message, found.found) == ("`t` is declared `dtype`", '"f65"')
    with pytest.raises(tcpx.ArgumentError) as caught:
        run(text, [("n", 3)])  # pyright: ignore[reportArgumentType]
    assert caught.value.diagnostic.message == "`params` is no mapping"


def test_two_values_for_one_knob() -> None:
    params: Mapping[str, ParamValue] = {"*/fc1/*.mr": 4, "*/fc2/*.mr": 3}
    found = refusal(SHARED, params)
    assert found.message == "`mr` of main/fc2/rows is one value with main/fc1/rows.mr: the ops are of one structure"
    assert (found.required, found.found) == ("4", "3")
    assert found.fix == "give them one value, or declare it `knob separate mr: ...`"
    module, schedule = tcpx.parse(PAYLOAD), tcpx.parse_schedule(SHARED)
    (checked,) = (d for d in tcpx.check(schedule, module, target="generic", params=params) if d.is_error)
    assert checked.message == found.message


def test_an_override_of_a_later_use_is_one_of_all_that_share() -> None:
    params: Mapping[str, ParamValue] = {"*/fc2/*.mr": 4}
    result = run(SHARED, params)
    assert [(u.value, u.shares, u.overridden) for u in result.knobs] == [
        (4, "", True),
        (4, "main/fc1/rows.mr", True),
        (6, "", False),
    ]
    assert result.module.main.text() == run(SHARED, {"*/fc1/*.mr": 4}).module.main.text()
    assert len(result.trace.entries) == 3
    module, schedule = tcpx.parse(PAYLOAD), tcpx.parse_schedule(SHARED)
    assert tcpx.check(schedule, module, target="generic", params=params) == ()
    (found,) = tcpx.check(schedule, module, target="generic", params={"*/fc2/*.mr": 40})
    assert found.message == "the value of the knob `mr` is not in its domain"


def test_a_later_override_chooses_a_block_for_all_that_share() -> None:
    text = SEQUENCE.replace("knob KIND mr: int = 6 in 1..14", "").replace(
        "tile(mm, [m: mr])", "tune { tile(mm, [m: 6]) } or { tile(mm, [n: 8]) }"
    )
    assert [u.value for u in run(text, {"*/fc2/*.tune1": 1}).knobs] == [1, 1, 0]


def test_steps_are_seen_once_where_a_later_use_is_overridden() -> None:
    seen: list[tuple[int, str]] = []
    module, schedule = tcpx.parse(PAYLOAD), tcpx.parse_schedule(SHARED)
    for params in ({"*/fc2/*.mr": 4}, {"main/fc3/rows.mr": 40}):
        seen.clear()
        explanation = tcpx.explain(
            module, schedule, params=params, on_step=lambda step: seen.append((step.index, step.statement))
        )
        assert [index for index, _ in seen] == list(range(len(seen)))
        assert seen[0] == (0, "tile(mm, [m: mr])")
    assert explanation.error is not None  # the steps before it were seen
    assert explanation.error.message == "the value of the knob `mr` is not in its domain"
    assert len(seen) == 2


def test_separate_knobs() -> None:
    uses = run(SEPARATE, {"*/fc2/*.mr": 4}).knobs
    assert [(u.value, u.shares, u.structure) for u in uses] == [(6, "", ""), (4, "", ""), (6, "", "")]


@pytest.mark.parametrize(
    ("key", "fix"),
    [
        ("mrr", "did you mean `mr`?"),
        ("main/fc4/rows.mr", "did you mean `main/fc3/rows.mr`?"),
        ("*/fc9/*.mr", None),
    ],
)
def test_an_override_that_matches_nothing(key: str, fix: str | None) -> None:
    found = refusal(SHARED, {key: 4})
    assert found.message == f"the parameter `{key}` (= 4) matches no knob of the schedule"
    assert fix is None or found.fix == fix


def test_knobs_of_a_block_that_is_not_chosen_do_not_count() -> None:
    text = SEQUENCE.replace(
        "  knob KIND mr: int = 6 in 1..14\n  tile(mm, [m: mr])\n",
        "  tune { knob mr: int = 6 in 1..14; tile(mm, [m: mr]) } or { knob nr: int = 8 in 1..64; tile(mm, [n: nr]) }\n",
    )
    assert [u.path for u in run(text).knobs if not u.shares] == [
        "main/fc1/rows.tune1", "main/fc1/rows.mr", "main/fc3/rows.tune1", "main/fc3/rows.mr",
    ]  # fmt: skip
    assert {u.path.rpartition(".")[2] for u in run(text, {"tune1": 1}).knobs} == {"tune1", "nr"}
    assert refusal(text, {"nr": 4}).message == "the parameter `nr` (= 4) matches no knob of the schedule"
    assert refusal(text, {"tune1": 2}).message == "the knob `tune1` chooses no alternative"


LIMITED = """language 1
sequence rows(mm: op<contract>) {
  knob separate kc: int = 128 in pow2(2, 512) up_to size(mm.k)
  tile(mm, [k: kc])
}
schedule main(root: func) { for mm in match some contract in root { rows(mm) } }
"""


def test_values_beyond_a_limit_are_the_first_that_reaches_it() -> None:
    domain = (2, 4, 8, 16, 32, 64)
    assert {(u.value, u.default, u.domain) for u in run(LIMITED).knobs} == {(64, 64, domain)}
    assert {u.value for u in run(LIMITED, {"kc": 256}).knobs} == {64}
    assert {u.value for u in run(LIMITED, {"kc": 32}).knobs} == {32}
    assert {u.value for u in run(LIMITED, {"kc!": 1024}).knobs} == {1024}
    assert refusal(LIMITED, {"kc": 3}).message == "the value of the knob `kc` is not in its domain"
    space = tcpx.search_space(parse(PAYLOAD), tcpx.parse_schedule(LIMITED), target="generic")
    assert [(v.items({}), space.names(v.path)) for v in space.variables] == [
        (domain, f"{fc}/rows.kc") for fc in ("fc1", "fc2", "fc3")
    ]


RECIPES = """language 1
sequence rows(mm: op<contract>) {
  tune recipe = "wide" if size(mm.k) > 4 else "high" {
    high => { tile(mm, [m: 6]) }
    wide where size(mm.k) > 4 => {
      knob nr: int = 8 in pow2(4, 16)
      tile(mm, [n: nr])
    }
  }
}
schedule main(root: func) { for mm in match some contract in root { rows(mm) } }
"""


def test_a_choice_by_name_is_a_knob_of_words() -> None:
    found = [(u.path, u.value, u.domain) for u in run(RECIPES).knobs if u.path.endswith("recipe") and not u.shares]
    assert found[0] == ("main/fc1/rows.recipe", "wide", ("high", "wide"))
    assert {u.value for u in run(RECIPES, {"recipe": "high"}).knobs} == {"high"}
    assert tcpx.loop_nest(run(RECIPES, {"recipe": "high"}).module.main).count("fc1/m1") == 1


def test_a_word_that_is_no_alternative_is_refused() -> None:
    found = refusal(RECIPES, {"recipe": "hig"})
    assert (found.message, found.required, found.found) == (
        "the value of the knob `recipe` is no alternative here", "high, wide", '"hig"',
    )  # fmt: skip
    found = refusal(RECIPES.replace("size(mm.k) > 4 => ", "size(mm.k) > 4000 => "), {})
    assert (found.message, found.required) == ("the default of the knob `recipe` is no alternative here", "high")
    closed = RECIPES.replace("high => ", "high where rank(mm) > 9 => ").replace("where size(mm.k) > 4", "where false")
    assert refusal(closed, {}).message == "no alternative of `recipe` is open"


def test_a_search_chooses_recipes_and_their_knobs() -> None:
    space = tcpx.search_space(parse(PAYLOAD), tcpx.parse_schedule(RECIPES), target="generic")
    recipe, nr = space.variables[:2]
    assert (recipe.name, recipe.default_value({}), recipe.items({})) == ("recipe", "wide", ("high", "wide"))
    assert nr.name == "nr"
    assert [nr.is_active({recipe.path: word}) for word in recipe.items({})] == [False, True]
    pinned = tcpx.search_space(
        parse(PAYLOAD), tcpx.parse_schedule(RECIPES), target="generic", params={"recipe": "high"}
    )
    assert pinned.variables == ()


SCHEDULES = Path(tcpx.__file__).parents[1] / "schedules"
DIGITS = SCHEDULES.parent / "examples" / "digits" / "digits.tcp"


@pytest.mark.parametrize("target", tcpx.targets())
@pytest.mark.parametrize("schedule", sorted(SCHEDULES.glob("*.tcps")), ids=lambda path: path.stem)
@pytest.mark.parametrize("threads", [1, 3])
def test_shipped_defaults_hold_on_every_target(schedule: Path, target: str, threads: int) -> None:
    """Defaults are in their domains and satisfy `require`: no step of a shipped schedule is refused."""
    run = tcpx.apply_schedule(tcpx.load(DIGITS), tcpx.load_schedule(schedule), target=target, threads=threads)
    assert run.knobs
    assert not any(use.overridden for use in run.knobs)


def test_a_glob_is_one_of_whole_paths() -> None:
    for key in ("*", "*mr", "main*", "*.m*", "*/fc?/*"):
        assert [u.value for u in run(SHARED, {key: 2}).knobs] == [2, 2, 2]
    assert [u.value for u in run(SEPARATE, {"*": 2, "mr": 3}).knobs] == [2, 2, 2]
    assert [u.value for u in run(SEPARATE, {"main/fc1/rows.mr": 2, "*": 3}).knobs] == [2, 3, 3]
    found = refusal(SHARED, {"?r": 4})
    assert (found.message, found.found) == (
        "the parameter `?r` (= 4) matches no knob of the schedule",
        "fc1/rows.mr, fc2/rows.mr, fc3/rows.mr",
    )
    assert found.fix == "a glob is one of whole paths: write `*.?r`"


def test_the_end_of_a_path_is_a_key() -> None:
    assert [u.value for u in run(SEPARATE, {"fc1/rows.mr": 2}).knobs] == [2, 6, 6]
    assert [u.value for u in run(SEPARATE, {"rows.mr": 2}).knobs] == [2, 2, 2]
    longest = {"fc1/rows.mr": 2, "*/fc1/*": 5, "rows.mr": 3, "mr": 4}
    assert [u.value for u in run(SEPARATE, longest).knobs] == [2, 3, 3]
    assert [u.value for u in run(SEPARATE, {**longest, "main/fc1/rows.mr": 7}).knobs] == [7, 3, 3]
    found = refusal(SEPARATE, {"c1/rows.mr": 4})  # no name begins there
    assert found.message == "the parameter `c1/rows.mr` (= 4) matches no knob of the schedule"
    assert found.fix == "did you mean `fc1/rows.mr`?"


def test_names_are_the_shortest_that_tell_knobs_apart() -> None:
    paths = ("net/fc1/gemm.mr", "net/fc1/gemm.nr", "net/fc2/gemm.mr", "net/fc1/gemm/pack.mr", "@f:net/fc2/gemm.mr")
    names = KnobNames.of(paths)
    assert [names(path) for path in paths] == [
        "fc1/gemm.mr", "nr", "net/fc2/gemm.mr", "pack.mr", "@f:net/fc2/gemm.mr",
    ]  # fmt: skip
    for path in paths[:2]:
        assert [other for other in paths if Assignment({names(path): 0}).reaching(other)] == [path]
    assert (names("net/fc1/gemm.nr!"), names("other.kc")) == ("nr!", "other.kc")


LONG = "a_layer_of_a_network_with_a_long_name"
DEEP = f"""language 1
sequence blocked_product_of_two_matrices(mm: op<contract>) {{
  knob separate mr: int = 6 in 1..14
  knob separate nr: int = 8 in 1..64
  tile(mm, [m: mr, n: nr])
}}
schedule {LONG}(root: func) {{ for mm in match some contract in root {{ blocked_product_of_two_matrices(mm) }} }}
"""


def test_of_many_knobs_the_nearest_are_named_one_a_line() -> None:
    found = refusal(DEEP, {"nrr": 4})
    assert found.found == "6 knobs, called mr, nr"
    assert found.notes == tuple(f"there is `{fc}/blocked_product_of_two_matrices.nr`" for fc in ("fc1", "fc2", "fc3"))
    assert found.fix == "did you mean `nr`?"
    assert max(map(len, found.render().splitlines())) < 120


def test_of_knobs_that_are_not_alike_the_names_are_listed() -> None:
    found = refusal(DEEP, {"depth": 4})
    assert (found.found, found.notes, found.fix) == ("6 knobs, called mr, nr", (), None)


def test_a_search_names_the_nearest_knobs_too() -> None:
    space = tcpx.search_space(parse(PAYLOAD), tcpx.parse_schedule(DEEP), target="generic")
    found = space.no_knob("nrr", "a knob")
    assert (found.message, found.found) == ("no knob is called `nrr`", "6 knobs, called mr, nr")
    assert found.fix == "did you mean `nr`?"


def test_uses_of_knobs_are_as_before_a_rollback() -> None:
    def use(path: str, value: int, structure: str = "s", shares: str = "") -> KnobUse:
        return KnobUse(path, value, value, (), Location("f", 1, 1), False, structure, shares)

    uses = KnobUses()
    for made in (use("a", 1), use("b", 2), use("c", 1, shares="a"), use("d", 4, "other")):
        uses.record(made)
    before, mark = list(uses), uses.mark()
    uses.record(use("a", 5, "other"))
    uses.record(use("e", 6))
    assert [made.path for made in uses] == ["b", "c", "d", "a", "e"]
    assert uses.shared_by("e", "s") == use("b", 2)
    uses.rollback(mark)
    assert list(uses) == before
    assert uses.shared_by("c", "s") == use("a", 1)
    assert uses.shared_by("a", "s") == use("b", 2)
