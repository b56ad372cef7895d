"""Functions of a payload, each tuned by itself: kept, reverted, reused, gone on with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

import tcpx
from tcpx.assignment import Assignment
from tcpx.cli.command import execute
from tcpx.nests import Nest, Nests
from tcpx.parts import Parts
from tcpx.payload.constants import Constants
from tcpx.payload.traits.constant import Constant
from tcpx.tune.duel import Effort
from tcpx.tune.model_study import ModelStudy
from tcpx.tune.progress import Progress
from tcpx.tune.rivals import Rivals
from tcpx.tune.search import Search
from tcpx.tune.slots import Begun, Slot
from tcpx.tune.space import Value
from tcpx.tune.verdicts import Comparison
from tcpx.tuned import TunedRecord, read_records
from tests.tune.test_records_of_functions import ROWS, net

TARGET = "generic"
SCHEDULE = """language 1
sequence layer(mm: op<contract>) {
  knob slow: bool = true
  let i, j = tile(mm, [m: 4, n: 8], tail: pad)
  fuse(epilogue(mm), into: j)
  tile(mm, [k: 1])
  if not slow { vectorize(i) }
}
schedule s(root: func) {
  for mm in match some contract in root { outline([mm, epilogue(mm)]) }
  for mm in match some contract in root { layer(mm) }
}
"""
PROGRAM = tcpx.parse_schedule(SCHEDULE)
ONE = net(2, ops=("max",), constant=True)
TWO = net(3, ops=("max", "sub"), constant=True)
EFFORT = Effort(rungs=(3, 5), shortest=2e-4, width=1.0, patience=0.0, most=2.0)
Tune = Callable[..., ModelStudy]


@pytest.fixture(autouse=True)
def _times_follow_from_the_params(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates run, and their times are computed: a machine that does other work decides no test."""
    seconds: dict[int, float] = {}
    begin, load, sample = Slot.begin, Slot.load, Slot.sample

    def note(slot: Slot, params: Mapping[str, Value] | None) -> None:
        fast = sum(not value for name, value in (params or {}).items() if name.endswith("slow"))
        seconds[id(slot)] = 1e-3 * 0.5**fast

    def begun(slot: Slot, number: int, params: Mapping[str, Value] | None) -> Begun:
        note(slot, params)
        return begin(slot, number, params)

    def loaded(slot: Slot, number: int, params: Mapping[str, Value] | None) -> None:
        note(slot, params)
        load(slot, number, params)

    def sampled(slot: Slot, example: int, shortest: float) -> tuple[float, float]:
        return seconds[id(slot)], sample(slot, example, shortest)[1]

    monkeypatch.setattr(Slot, "begin", begun)
    monkeypatch.setattr(Slot, "load", loaded)
    monkeypatch.setattr(Slot, "sample", sampled)


@pytest.fixture
def tune(tmp_path: Path) -> Tune:
    """`tune(module, ..)`: with little effort."""

    def run(module: tcpx.Module = ONE, schedule: tcpx.Schedule = PROGRAM, **options: object) -> ModelStudy:
        held = {
            "record": tmp_path / "s.tuned.yaml",
            "storage": tmp_path / "tune.db",
            "sizes": [{"M": 64}],
            "trials": 8,
            "sampler": "grid",
            "effort": EFFORT,
            "processes": 0,
            "target": TARGET,
            "workers": 1,
            **options,
        }
        return tcpx.tune_by_kernel(module, schedule, **held)

    return run


def parts_of(module: tcpx.Module, schedule: tcpx.Schedule = PROGRAM) -> Parts:
    return Parts.of(module, schedule, tcpx.load_target(TARGET), 1, None)


def verdicts(study: ModelStudy) -> dict[str, str]:
    return {held.name: held.verdict for held in study.outcomes}


def test_a_payload_of_one_function_has_a_place() -> None:
    parts = parts_of(ONE)
    (key,) = set(parts.keys.values())
    part = parts.part(key, [{"M": 64}], Assignment())
    assert part.alone
    assert part.payload.main.location is not None


def test_functions_are_tuned_confirmed_and_used_by_another_payload(tune: Tune, tmp_path: Path) -> None:
    seen: list[Progress] = []
    study = tune(processes=2, listener=seen.append)
    assert verdicts(study) == {"@net.r0": "kept", "@net itself": "no knobs"}
    first, rest = study.outcomes
    assert (first.calls, rest.calls) == (2, 1)
    assert 0.99 < first.share + rest.share < 1.01
    assert first.alone
    assert first.ratio is not None
    assert first.whole is not None
    assert study.whole == first.whole
    assert max(first.ratio, first.whole.ratio) < 1
    phases = [held.phase for held in seen if held.phase]
    assert "measuring where the time goes, M=64" in phases
    assert any(text.startswith("1 of 2: @net.r0, ") for text in phases)
    assert "@net.r0: the whole with its winner, and without" in phases
    assert "s that its defaults take" in study.text()
    assert study.text().split("\n")[0].split() == "share runs defaults tuned ratio tried on the whole function".split()

    records = read_records(tmp_path / "s.tuned.yaml")
    assert [(held.function, held.params) for held in records] == [("net.r0", {"s/%1/layer.slow": False})]
    assert "of the time of @net" in records[0].provenance["whole"]
    other = net(5, "other", ops=("sub", "max"), stem="z", constant=True, seed=1)
    kernel = tcpx.compile(other, PROGRAM, target=TARGET, tuned=tmp_path / "s.tuned.yaml")
    assert isinstance(kernel.tuned, TunedRecord)
    assert kernel.tuned.params == {"@other.z1:s/pz1/layer.slow": False}
    arrays = tcpx.random_inputs(other, sizes={"M": 13})
    found, wanted = (np.asarray(held, np.float64) for held in (kernel(*arrays), tcpx.evaluate(other, *arrays)))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())

    reused = tune(net(2, "third", ops=("max",), constant=True))
    assert verdicts(reused) == {
        "@third.r0": "recorded before, of @net.r0",
        "@third itself": "no knobs",
    }
    assert reused.params == {"@third.r0:s/pr0/layer.slow": False}


def test_what_is_slower_on_the_whole_is_reverted(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rivals, "compared", lambda *_: Comparison(1.1, 1.0, 1.2, 3, 1e-3))
    study = tune()
    assert verdicts(study) == {"@net.r0": "reverted: the whole is slower with it", "@net itself": "no knobs"}
    assert study.params == {}
    assert not (tmp_path / "s.tuned.yaml").exists()
    assert "@net: the defaults are kept\n" in study.text()
    assert study.text().endswith(" s, 0 of them for comparisons in fresh processes")
    monkeypatch.setattr(Rivals, "compared", lambda *_: "wrong result: 1 of 2 elements")
    assert verdicts(tune(resume=True))["@net.r0"] == "reverted: wrong result: 1 of 2 elements"


def test_an_interrupted_run_is_gone_on_with(tune: Tune, tmp_path: Path) -> None:
    def stop(progress: Progress) -> None:
        if progress.phase.startswith("2 of 3"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(TWO, listener=stop)
    assert [held.function for held in read_records(tmp_path / "s.tuned.yaml")] == ["net.r0"]
    study = tune(TWO, resume=True)
    assert verdicts(study)["@net.r0"].startswith("recorded before")
    assert verdicts(study)["@net.r1"] == "kept"
    assert tcpx.compile(TWO, PROGRAM, target=TARGET, tuned=tmp_path / "s.tuned.yaml").tuned is not None


def test_what_is_in_no_function_is_tuned_in_its_place(tune: Tune, tmp_path: Path) -> None:
    """Also a function that the schedule makes of operations by their names: it is not to be had without the others."""
    named = "\n".join(f'  let {op} = match one contract in root where name == "p{op}"' for op in ("r0", "r1"))
    old = "  for mm in match some contract in root { outline([mm, epilogue(mm)]) }"
    program = tcpx.parse_schedule(
        SCHEDULE.replace(old, f"{named}\n  outline([r0, epilogue(r0)])\n  layer(r1)\n  layer(r0)").replace(
            "  for mm in match some contract in root { layer(mm) }\n", ""
        )
    )
    study = tune(ONE, program)
    assert {held.name: (held.verdict, held.alone) for held in study.outcomes} == {
        "@net.r0": ("kept", False),
        "%r1": ("kept", False),
        "@net itself": ("no knobs", False),
    }
    assert study.text().count("times of functions that are not tuned alone are those of the whole") == 1
    function, whole = sorted(read_records(tmp_path / "s.tuned.yaml"), key=lambda held: held.function == "")
    assert function.params == {"s/%1/layer.slow": False}
    kernel = tcpx.compile(ONE, program, target=TARGET, tuned=tmp_path / "s.tuned.yaml")
    assert kernel.tuned == whole
    again = tune(ONE, program)
    assert verdicts(again) == {
        "@net.r0": "recorded before, of @net.r0",
        "%r1": "recorded before",
        "@net itself": "no knobs",
    }


NESTS = tcpx.parse_schedule(
    SCHEDULE.replace("outline([mm, epilogue(mm)])", "layer(mm)", 1).replace(
        "  for mm in match some contract in root { layer(mm) }\n}", "}"
    )
)
"""The same layers, of which no function is made."""
SLOW = {f"s/pr{k}/layer.slow" for k in range(3)}


def test_nests_of_the_payload_are_tuned_alone_and_kept_together(tune: Tune, tmp_path: Path) -> None:
    """Equal ones once; the values are those of the payload's own knobs, for each of them."""
    study = tune(TWO, NESTS)
    assert {held.name: (held.verdict, held.alone, held.calls) for held in study.outcomes} == {
        "%r0 and 1 equal": ("kept", True, 2),
        "%r1": ("kept", True, 1),
        "@net itself": ("no knobs", False, 1),
    }
    assert study.params == dict.fromkeys(SLOW, False)
    (record,) = read_records(tmp_path / "s.tuned.yaml")
    assert (record.function, record.params) == ("", study.params)
    assert record.provenance["nests"] in ("%r0 and 1 equal 0.500, %r1 0.500", "%r1 0.500, %r0 and 1 equal 0.500")
    assert record.provenance["seconds"].endswith(" of them comparing")
    assert tcpx.compile(TWO, NESTS, target=TARGET, tuned=tmp_path / "s.tuned.yaml").tuned == record
    again = tune(TWO, NESTS)
    assert verdicts(again) == {
        "%r0 and 1 equal": "recorded before",
        "%r1": "recorded before",
        "@net itself": "no knobs",
    }


def test_of_nests_that_slow_the_whole_down_together_some_are_kept(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[set[str]] = []

    def compared(rivals: Rivals, params: Mapping[str, Value], others: Mapping[str, Value]) -> Comparison:
        del rivals
        asked.append(set(params) - set(others))
        ratio = 1.1 if "s/pr1/layer.slow" in params else 0.9
        return Comparison(ratio, ratio, ratio, 3, 1e-3)

    monkeypatch.setattr(Rivals, "compared", compared)
    study = tune(TWO, NESTS)
    assert verdicts(study)["%r0 and 1 equal"] == "kept"
    assert verdicts(study)["%r1"] == "reverted: the whole is slower with it"
    others = {"s/pr0/layer.slow", "s/pr2/layer.slow"}
    assert asked[0] == SLOW
    assert sorted(map(len, asked[1:])) == [1, 2]
    assert study.params == dict.fromkeys(others, False)
    assert study.whole == Comparison(0.9, 0.9, 0.9, 3, 1e-3)

    record, called = (tmp_path / "s.tuned.yaml").read_bytes(), iter([0.9, 1.1])

    def later(*_: object) -> Comparison:
        ratio = next(called)
        return Comparison(ratio, ratio, ratio, 3, 1e-3)

    monkeypatch.setattr(Rivals, "compared", later)
    slower = tune(TWO, NESTS, resume=True)
    assert verdicts(slower)["%r1"] == "reverted: the whole is slower with all that won"
    assert (tmp_path / "s.tuned.yaml").read_bytes() == record
    assert slower.params == {}


def nests_of(body: str, module: tcpx.Module = TWO) -> dict[str, Nest]:
    """The nests that have knobs, by their names."""
    text = (
        f'language 2\nimport "default.tcps" as default\nschedule s(root: func) {{\n{body}\n  default.rest(root)\n}}\n'
    )
    parts = parts_of(module, tcpx.parse_schedule(text))
    return {nest.part.functions[0]: nest for nest in Nests.of(parts, [{"M": 64}], Assignment()).nests}


@pytest.mark.parametrize(("number", "is_alone"), [("any", True), ("one", False)])
def test_what_a_partial_schedule_leaves_open_has_knobs(number: str, is_alone: bool) -> None:
    """What it does by hand has none. One that asks for an operation by its name can only be followed where that is."""
    by_hand = f'  for mm in match {number} contract in root where name == "pr1" {{ tile(mm, [m: 4]) }}'
    found = nests_of(by_hand)
    assert {name: nest.part.alone for name, nest in found.items()} == dict.fromkeys(["%r0", "%r2"], is_alone)
    for name, nest in found.items():
        assert nest.paths
        assert all(f"/p{name[1:]}/" in path for path in nest.paths)


def test_a_nest_in_the_order_that_a_layout_gave_it_stands_alone() -> None:
    """Channels lie innermost after `assign_layout`, in the nest as in the payload, so that recipes are the same."""
    text = """
func @net(%x: tensor<1x16x14x14xf32>) -> tensor<1x16x14x14xf32> {
  %w = tcp.const {constant = "w"} : tensor<32x16x3x3xf32>
  %v = tcp.const {constant = "v"} : tensor<16x32x3x3xf32>
  %a = tcp.convolution(%x, %w) {low = [1, 1], high = [1, 1]} : tensor<1x32x14x14xf32>
  %b = tcp.sigmoid(%a) : tensor<1x32x14x14xf32>
  %c = tcp.convolution(%b, %v) {low = [1, 1], high = [1, 1]} : tensor<1x16x14x14xf32>
  tcp.return(%c)
}
"""
    arrays = {"w": np.ones((32, 16, 3, 3), np.float32), "v": np.ones((16, 32, 3, 3), np.float32)}
    parts = parts_of(tcpx.parse(text, constants=Constants(arrays)), tcpx.program_or_default(None))
    nests = Nests.of(parts, [{}], Assignment()).nests
    alone = {nest.part.functions: nest.paths for nest in nests if nest.part.alone}
    assert set(alone) == {("%b",), ("%c",)}
    assert any("/c/by_role/sums_of_channels." in path for path in alone["%c",])


def test_values_of_a_nest_are_those_of_each_equal_one() -> None:
    found = Nests.of(parts_of(TWO, NESTS), [{"M": 64}], Assignment()).nests
    nest = next(each for each in found if each.part.functions[0] == "%r0")
    (key,) = {nest.part.key}
    assert nest.part.functions == ("%r0", "%r2")
    assert key
    path = next(path for path in nest.paths if "pr0" in path)
    (main,) = (name for name in nest.renames[0] if name.endswith(".alone"))
    own = f"@net.r0:{path.replace('/net/', f'/{main}/')}"
    assert nest.of_payload({own: 7}) == {path: 7, path.replace("pr0", "pr2"): 7}


def test_a_function_has_the_sizes_of_its_calls_and_other_constants_in_each() -> None:
    text = (
        f"func @f(%x: {ROWS}, %w: tensor<16x16xf32>) -> {ROWS} symbols [M] {{\n"
        f"  %y = tcp.matmul(%x, %w) : {ROWS}\n  tcp.return(%y)\n}}\n"
        "func @main(%a: tensor<[M]x16xf32>, %b: tensor<[N]x16xf32>) -> (tensor<[M]x16xf32>, tensor<[N]x16xf32>) symbols"
        ' [M, N] {\n  %v = tcp.const {constant = "v"} : tensor<16x16xf32>\n'
        '  %w = tcp.const {constant = "w"} : tensor<16x16xf32>\n'
        "  %c = tcp.call @f(%a, %v) : tensor<[M]x16xf32>\n  %d = tcp.call @f(%c, %w) : tensor<[M]x16xf32>\n"
        "  %e = tcp.call @f(%b, %w) : tensor<[N]x16xf32>\n  tcp.return(%d, %e)\n}\n"
    )
    draw = np.random.default_rng(0)
    arrays_of = {name: draw.standard_normal((16, 16), np.float32) for name in "vw"}
    module = tcpx.parse(text, constants=arrays_of)
    program = tcpx.parse_schedule(
        "language 1\nschedule s(root: func) {\n  for mm in match some contract in root { row(mm) }\n}\n"
        "sequence row(mm: op<contract>) {\n  knob mr: int = 4 in 1..6\n  tile(mm, [m: mr])\n}\n"
    )
    parts = parts_of(module, program)
    (key,) = parts.keys.values()
    part = parts.part(key, [{"M": 5, "N": 9}], Assignment())
    assert (part.alone, part.calls, dict(part.sizes)) == (True, 3, {(("M", 5),): 2, (("M", 9),): 1})
    main = part.payload.main
    assert [value.name for value in main.args] == ["x"]
    stored = [Constant(op).stored_array for op in main.body.ops if Constant(op).stored_array is not None]
    assert stored == ["v", "w", "w"]
    arrays = tcpx.random_inputs(part.payload, sizes={"M": 5})
    for found, weights in zip(tcpx.evaluate(part.payload, *arrays), (*"vw", "w"), strict=True):
        np.testing.assert_allclose(found, np.matmul(arrays[0], arrays_of[weights]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("rows", "calls"), [(1, 2), (1000, 1)])
def test_constants_are_copied_where_reading_them_takes_time(rows: int, calls: int) -> None:
    """Reading 16 KiB takes longer than 1 row of the product, and a small part of the time of 1000."""
    text = (
        f"func @net(%x: tensor<{rows}x64xf32>) -> tensor<{rows}x64xf32> {{\n"
        '  %v = tcp.const {constant = "v"} : tensor<64x64xf32>\n  %w = tcp.const {constant = "w"} : tensor<64x64xf32>\n'
        f"  %y = tcp.matmul(%x, %v) : tensor<{rows}x64xf32>\n  %z = tcp.matmul(%y, %w) : tensor<{rows}x64xf32>\n"
        "  tcp.return(%z)\n}\n"
    )
    arrays = {name: np.ones((64, 64), np.float32) for name in "vw"}
    program = tcpx.parse_schedule(
        "language 1\nschedule s(root: func) {\n  for mm in match some contract in root { row(mm) }\n}\n"
        "sequence row(mm: op<contract>) {\n  knob mr: int = 1 in 1..6\n  tile(mm, [m: mr])\n}\n"
    )
    nests = Nests.of(parts_of(tcpx.parse(text, constants=arrays), program), [{}], Assignment())
    assert [(nest.part.functions, nest.part.calls) for nest in nests.nests] == [(("%y", "%z"), calls)]


def test_a_spent_budget_leaves_defaults(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdicts(tune(budget=0.0))["@net.r0"] == "defaults: the budget is spent"
    monkeypatch.setattr(Search, "_is_spent", lambda search: search.ledger.count(search.key) > 0)
    study = tune(budget=1e3)
    assert study.outcomes[0].candidates == 1
    assert verdicts(study)["@net.r0"] == "defaults: the budget is spent"


def test_a_space_file_of_knobs_is_refused(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text("knobs:\n  slow: [true]\n")
    with pytest.raises(tcpx.ArgumentError, match="a space file of several functions has no knobs"):
        tune(space=tmp_path / "space.yaml")


def test_a_size_that_nothing_tells_is_named(tune: Tune) -> None:
    with pytest.raises(tcpx.ArgumentError, match="the size `M` of argument `x` is not known") as refused:
        tune(sizes=[])
    assert refused.value.diagnostic.fix == "say the size: sizes={'M': 64}, or --size M=64"


def test_in_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tcpx.cli.tune_by_kernel.QUICK", EFFORT)
    payload, schedule = tmp_path / "net.tcp", tmp_path / "s.tcps"
    payload.write_text(net(2).text())
    schedule.write_text(SCHEDULE)
    given = [str(payload), "-s", str(schedule), "--target", TARGET]
    options = ["--size", "M=64", "--by-kernel", "--quick", "--final", "0", "--storage", str(tmp_path / "tune.db")]
    assert execute(["tune", *given, *options, "--sampler", "grid"]) == 0
    shown = capsys.readouterr().out
    records = tmp_path / "s.tuned.yaml"
    assert f"records: {records}\n" in shown
    assert "1 of 2: @net.r0, " in shown
    assert "@net.r0: kept\n" in shown
    assert f"tcpx emit {payload} -s {schedule} --target generic --tuned {records}" in shown
    assert execute(["explain", *given, "--tuned"]) == 0
    assert "; @net.r0 has the record of @net.r0" in capsys.readouterr().out
    assert execute(["tune", *given, *options, "--html", "x.html"]) == 2
    assert "--by-kernel makes several" in capsys.readouterr().err
