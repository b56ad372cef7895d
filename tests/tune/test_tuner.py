"""Studies: right winners, whatever candidates do; edges; going on after an end."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import tcpx
from tcpx.calibrated import keep_calibration
from tcpx.tune import model, search, tuner
from tcpx.tune.duel import QUICK
from tcpx.tune.evaluation import Evaluator
from tcpx.tune.final_comparison import FinalComparison
from tcpx.tune.fresh_processes import set_text
from tcpx.tune.ledger import Ledger
from tcpx.tune.page.study_page import study_page
from tcpx.tune.progress import Progress, line_of
from tcpx.tune.slots import Limits
from tcpx.tune.study import Study
from tcpx.tune.study_folder import study_folder
from tcpx.tune.verdicts import Comparison, Verdict
from tests.emit_c.test_driver import fake_compiler
from tests.tune.planting import CRASH, HANG, HUNGRY, REFUSED, WRONG, planting_compiler

PAYLOAD = """\
func @f(%x: tensor<[N]x64xf32>) -> tensor<[N]x64xf32> symbols [N: 0..4096] {
  %y = tcp.mul(%x, %x) : tensor<[N]x64xf32>
  tcp.return(%y)
}
"""
SCHEDULE = """\
language 1
schedule s(root: func) {
  knob step: int = 4 in 1..8
  require step != 2 "not two"
  let y = match one op in root
  tile(y, [d0: step])
}
"""
Tune = Callable[..., Study]


@pytest.fixture
def tune(tmp_path: Path) -> Tune:
    """`tune(schedule, ..)`: a study with little effort."""

    def run(schedule: str = SCHEDULE, payload: str = PAYLOAD, **options: object) -> Study:
        held = {
            "storage": tmp_path / "tune.db",
            "sizes": [{"N": 64}],
            "sampler": "grid",
            "effort": QUICK,
            "processes": 0,
            "target": "generic",
            "workers": 2,
            **options,
        }
        return tcpx.tune(tcpx.parse(payload, "f.tcp"), tcpx.parse_schedule(schedule, "s.tcps"), **held)

    return run


def verdicts(study: Study) -> dict[object, Verdict]:
    return {candidate.point["s.step"]: candidate.verdict for candidate in study.candidates}


def test_candidates_have_the_numbers_of_a_calibrated_machine(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TCPX_MACHINE", raising=False)
    monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path / "cache"))  # that of candidates is another
    keep_calibration('processor: "this"\nl3_rate: 77\n')
    study = tune(SCHEDULE.replace("1..8", "3..4"), target="native")
    assert tcpx.load_target("native").l3_rate == 77
    assert verdicts(study) == {3: Verdict.OK, 4: Verdict.OK}


def test_a_small_space_is_searched_to_its_end(tune: Tune) -> None:
    seen: list[Progress] = []
    study = tune(listener=seen.append)
    assert verdicts(study) == dict.fromkeys((4, 1, 3, 5, 6, 7, 8), Verdict.OK)
    assert study.candidates[0].source == "defaults"
    assert "the space has no further points" in study.text()
    assert 0 < study.trying < study.seconds
    assert study.preparing > 0
    assert f"{study.preparing:.1f} to prepare, {study.trying:.1f} in candidates, " in study.text()
    assert study.best is not None
    assert study.params == study.best.params
    assert sum(len(progress.finished) for progress in seen) == 7
    assert all(line_of(candidate, study.names, study.candidates) for candidate in study.candidates)
    kernel = tcpx.compile(tcpx.parse(PAYLOAD), tcpx.parse_schedule(SCHEDULE), params=study.params, target="generic")
    assert kernel is not None


def test_planted_faults_never_win_and_are_named(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = {3: WRONG, 5: CRASH, 6: HANG, 7: HUNGRY, 8: REFUSED}
    monkeypatch.setenv("CC", planting_compiler(tmp_path / "cc", faults))
    limits = Limits(schedule=60, build=60, check=3, sample=3)
    study = tune(limits=limits, memory=1 << 30)
    assert verdicts(study) == {
        4: Verdict.OK,
        1: Verdict.OK,
        3: Verdict.WRONG_RESULT,
        5: Verdict.CRASHED,
        6: Verdict.TIMEOUT,
        7: Verdict.CRASHED,
        8: Verdict.COMPILE_FAILED,
    }
    reasons = {candidate.point["s.step"]: candidate.reason for candidate in study.candidates}
    assert "element [0, 1]" in reasons[3]
    assert "signal SIG" in reasons[5]
    assert "no reply within 3 s" in reasons[6]
    assert "the limit is 1024 MiB" in reasons[7]
    assert study.best is not None
    assert study.best.point["s.step"] in (1, 4)


FAULTY_STEPS = """\
import os
from tcpx.tune import trial

drafted = trial.draft

def draft(module, **given):
    (step,) = given["params"].values()
    match step:
        case 3:
            os.abort()
        case 5:
            bytearray(1 << 45)
        case 6:
            raise ValueError("planted")
    return drafted(module, **given)

trial.draft = draft
"""


def test_a_schedule_that_ends_its_process_is_a_verdict(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "faulty_steps.py").write_text(FAULTY_STEPS, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    study = tune(plugins=["faulty_steps"], memory=1 << 30)
    crashed = dict.fromkeys((3, 5, 6), Verdict.CRASHED)
    assert verdicts(study) == {**dict.fromkeys((4, 1, 7, 8), Verdict.OK), **crashed}
    reasons = {candidate.point["s.step"]: candidate.reason for candidate in study.candidates}
    assert reasons[3].startswith("the schedule: signal SIGABRT")
    assert reasons[5] == "out of memory: more than 1024 MiB"
    assert "planted" in reasons[6]


def test_each_c_is_compiled_once(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    compiler = fake_compiler(tmp_path / "cc", f'case "$*" in *-shared*) echo "$*" >> {log};; esac\nexec gcc "$@"')
    monkeypatch.setenv("CC", str(compiler))
    study = tune()
    compiled = [line for line in log.read_text().splitlines() if "/f.c " in line]
    assert len(compiled) == len({candidate.c_hash for candidate in study.candidates}) == 7


STATE = """\
func @f(%x: tensor<[N]x64xf32>, %P: index as [P], %h: inout tensor<[N]x64xf32>)
    -> (%h: tensor<[N]x64xf32>, %y: tensor<[N]x[P]xf32>)
    symbols [N: 0..4096, P: 0..64] {
  %y = gml_st.materialize(%h) tile [0, 0] [N, P] : tensor<[N]x[P]xf32>
  %new = tcp.add(%h, %x) : tensor<[N]x64xf32>
  tcp.return(%new, %y)
}
"""


def test_state_has_its_start_in_each_check_and_is_compared(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = {3: WRONG.replace("out", "h"), 5: WRONG.replace("out", "x")}
    monkeypatch.setenv("CC", planting_compiler(tmp_path / "cc", faults))
    schedule = SCHEDULE.replace("one op in root", 'one op in root where name == "new"')
    study = tune(schedule, STATE, sizes=[{"N": 16, "P": 5}])
    wrong = {3: Verdict.WRONG_RESULT, 5: Verdict.WRONG_RESULT}
    assert verdicts(study) == {**dict.fromkeys((4, 1, 6, 7, 8), Verdict.OK), **wrong}
    reasons = {candidate.point["s.step"]: candidate.reason for candidate in study.candidates}
    assert "result 0, element [0, 1]" in reasons[3]
    assert reasons[5] == "it writes to its arguments"
    assert study.best is not None


def test_what_steps_refuse_is_a_verdict(tune: Tune) -> None:
    schedule = (
        SCHEDULE.replace(
            "tile(y, [d0: step])",
            'let i = tile(y, [d0: step])\n  require size(y.d1) / step != 64 "left"\n  tile(y, [d1: 65 - step])',
        )
        .replace('require step != 2 "not two"', "")
        .replace("1..8", "[4, 1, 64, 65]")
    )
    found = {candidate.point["s.step"]: candidate for candidate in tune(schedule).candidates}
    assert found[4].verdict is Verdict.OK
    assert found[65].verdict is Verdict.TRANSFORM_FAILED
    assert "s.tcps:" in found[65].reason


def test_the_same_c_is_timed_once(tune: Tune) -> None:
    schedule = SCHEDULE.replace("[d0: step]", "[d0: 4 + step / 8]")
    study = tune(schedule)
    assert {c.alike for c in study.candidates if c.point["s.step"] not in (4, 8)} == {0}
    assert all(c.verdict is Verdict.OK and c.relative == 1.0 for c in study.candidates if c.alike == 0)


def test_no_knobs_and_one_point(tune: Tune, tmp_path: Path) -> None:
    fixed = SCHEDULE.replace("knob step: int = 4 in 1..8", "let step = 4")
    study = tune(fixed)
    assert [(c.verdict, c.point) for c in study.candidates] == [(Verdict.OK, {})]
    assert "nothing is faster than the defaults" in study.text()
    one = tune(SCHEDULE.replace("1..8", "[4]"), storage=tmp_path / "one.db")
    assert len(one.candidates) == 1


def test_no_point_at_all_says_what_refuses_most(tune: Tune) -> None:
    schedule = SCHEDULE.replace('"not two"', '"not two"\n  require step > 9 "too small"')
    with pytest.raises(tcpx.ArgumentError, match="satisfies all constraints") as caught:
        tune(schedule)
    assert (caught.value.diagnostic.found or "").startswith("`too small` refused 7 partial points")
    assert caught.value.diagnostic.schedule is not None
    assert caught.value.diagnostic.schedule.line == 5


def test_deliberately_bad_defaults(tune: Tune) -> None:
    study = tune(SCHEDULE.replace("int = 4 in", "int = 2 in"), trials=2)
    assert study.candidates[0].point["s.step"] in (1, 3)
    assert study.best is not None


def test_a_study_is_not_begun_twice_but_resumed(tune: Tune) -> None:
    first = tune(trials=3)
    assert len(first.candidates) == 3
    assert "all 3 trials are done" in first.text()
    with pytest.raises(tcpx.ArgumentError, match="has this study already") as caught:
        tune()
    assert "--resume" in (caught.value.diagnostic.fix or "")
    again = tune(resume=True)
    assert again.candidates[:3] == first.candidates
    assert len(verdicts(again)) == len(again.candidates) == 7


@pytest.mark.parametrize("sampler", ["random", "evolutionary", "tpe"])
def test_a_sampler_that_repeats_itself_does_not_end_a_study(
    tune: Tune, monkeypatch: pytest.MonkeyPatch, sampler: str
) -> None:
    monkeypatch.setattr(search, "MOST_REPEATS", 1)
    study = tune(sampler=sampler, trials=50)
    assert sorted(int(c.point["s.step"]) for c in study.candidates) == [1, *range(3, 9)]
    assert "the space has no further points" in study.text()


def test_a_winner_outside_of_a_narrower_space_is_said(tune: Tune, tmp_path: Path) -> None:
    tune(trials=3)
    space = tmp_path / "space.yaml"
    space.write_text('knobs:\n  "*.step": [8]\n', encoding="utf-8")
    again = tune(resume=True, space=space, trials=4)
    assert again.best is not None
    is_outside = any("is not in the space that was searched now" in note for note in again.notes)
    assert is_outside == (again.best.point["s.step"] != 8)


def test_the_winner_is_measured_beside_the_defaults_and_no_schedule(tune: Tune) -> None:
    study = tune(SCHEDULE.replace("int = 4 in 1..8", "int = 1 in [1, 8]"), processes=2)
    bare = study.final.against_no_schedule
    assert bare is not None
    assert study.roof is not None
    assert round(study.roof.bytes) == 2 * 64 * 64 * 4
    assert round(study.roof.operations) == 64 * 64
    assert study.roof.by.startswith(("read_", "fma_"))
    text = study.text()
    assert "the winner  " in text
    assert "without a schedule" in text
    assert "% of the limit (" in text
    assert ") of that of the payload without a schedule" in study.provenance()["time"]
    if study.best != study.first:
        assert study.final.against_defaults is not None
        assert "the defaults  " in text


def test_what_is_not_known_to_be_faster_is_not_recommended(tune: Tune, tmp_path: Path) -> None:
    """The defaults are: in params, in the text, on the page, in the record."""
    found = tune(storage=None, trials=2)
    first, best = found.candidates
    for low, high, is_kept in ((0.95, 1.02, True), (1.01, 1.2, True), (0.95, 1.0, True), (0.95, 0.99, False)):
        final = FinalComparison(Comparison(0.98, low, high, 3, 1e-6), Comparison(0.5, 0.4, 0.6, 3, 1e-6))
        study = replace(found, best=best, first=first, final=final)
        winner = first if is_kept else best
        assert study.keeps_defaults == is_kept
        assert study.params == winner.params
        assert study.params["s.step"] == (4 if is_kept else 1)
        said = "the defaults, #0: #1 step=1 is not known to be faster" if is_kept else "#1 step=1"
        assert f"best: {said}\n" in study.text()
        assert f"  {'#1' if is_kept else 'the winner':<20} " in study.text()
        assert "without a schedule" in study.text()
        assert ("the interval contains 1" in study.text()) == (low <= 1 <= high)
        told = "the defaults: #1 took 0.980 (" if is_kept else f"0.980 ({low:.3f}..{high:.3f}) of that of the"
        assert study.provenance()["time"].startswith(told)
        assert study.record(tmp_path / "r.yaml").params == winner.params
        assert f"<td>step</td><td>{winner.point['s.step']}</td>" in study_page(study)


def test_what_there_is_without_a_schedule_is_the_default_policy(tmp_path: Path) -> None:
    study = tcpx.tune(
        tcpx.parse(PAYLOAD), sizes=[{"N": 4}], trials=1, effort=QUICK, processes=2, target="generic", workers=1
    )
    assert study.final.against_no_schedule is None


def test_a_budget_counts_all_but_the_final_comparison(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that goes on by 60 s in the preparation, by 30 s in each candidate, and in the comparison."""
    now, phases = [0.0], list[str]()

    def listener(progress: Progress) -> None:
        phases.append(progress.phase)
        now[0] += 60.0 if progress.phase.startswith("finding") else 30.0 if not progress.phase.startswith("co") else 0.0

    def final(
        _: Evaluator, winner: object, rivals: list[object], processes: int, on_set: Callable[[str], None]
    ) -> object:
        on_set("set 1 of 2 to 6")
        return [Comparison(0.5, 0.4, 0.6, processes, 1e-6) for _ in rivals]

    for module in (search, tuner):
        monkeypatch.setattr(module, "monotonic", lambda: now[0])
    monkeypatch.setattr(Evaluator, "final", final)
    study = tune(budget=150.0, processes=2, listener=listener, storage=None, workers=1)
    assert [candidate.number for candidate in study.candidates] == [0, 1]
    assert (study.preparing, study.seconds, study.searching) == (90.0, 60.0, 150.0)
    assert study.final.against_no_schedule is not None
    assert study.measuring == 60.0
    assert "the budget is spent, after 150 s" in study.text()
    (said,) = (phase for phase in phases if phase.startswith("measuring the winner again"))
    assert re.search(r" in 2 to 6 sets of fresh processes: about \d+ to \d+ s, beyond the budget$", said)

    spent = tune(budget=0.0, processes=2, listener=listener, storage=None)
    assert spent.text().startswith("0 candidates")
    assert "no candidate was tried: there is no winner" in spent.text()


def test_how_long_sets_take() -> None:
    """Each as long as those before."""
    assert set_text(1, 5, 0.0) == "set 1 of 5 to 15"
    assert set_text(2, 5, 4.0) == "set 2 of 5 to 15, 16 to 56 s more"
    assert set_text(7, 5, 24.0) == "set 7 of 5 to 15, 4 to 36 s more"


def test_another_payload_is_another_study(tune: Tune, tmp_path: Path) -> None:
    tune(trials=1)
    tune(trials=1, sizes=[{"N": 65}])
    tune(trials=1, params={"step": 3})
    with Ledger(tmp_path / "tune.db") as ledger:
        assert len(ledger.studies()) == 3


@pytest.mark.parametrize(
    ("given", "required", "found"),
    [
        ({"trials": 0}, "a number of candidates, 1 or more", "0"),
        ({"trials": "3"}, "a number of candidates, 1 or more", "'3'"),
        ({"budget": float("nan")}, "seconds, 0 or more", "nan"),
        ({"seed": -1}, "a number, 0 or more", "-1"),
        ({"sizes": {"N": 4}}, "a list of mappings", "something of the Python type dict"),
        ({"sizes": [{"N": 4.0}]}, "a list of mappings", "something of the Python type list"),
        ({"seeds": {"step": 7}}, "a list of mappings", "something of the Python type dict"),
        ({"seeds": [{"stop": 7}]}, "a knob of the schedule", "step"),
        ({"workers": -2}, "a number of processes", "-2"),
        ({"memory": "1G"}, "bytes, 1 or more", "'1G'"),
        ({"plugins": ["no_such_plugin"]}, "a module to import", "no such module"),
        ({"executor": "dask://"}, "dask://HOST:PORT", "dask://"),
        ({"executor": "dask://:x"}, "dask://HOST:PORT", "dask://:x"),
    ],
)
def test_arguments_that_cannot_be_used(tune: Tune, given: dict[str, object], required: str, found: str) -> None:
    with pytest.raises(tcpx.ArgumentError) as caught:
        tune(**given)
    assert required in (caught.value.diagnostic.required or "")
    assert found in (caught.value.diagnostic.found or "")


def test_seeds_may_be_named_as_params_are(tune: Tune) -> None:
    study = tune(trials=2, seeds=[{"step": 7}])
    assert [(c.source, dict(c.point)) for c in study.candidates][1] == ("seed", {"s.step": 7})


def test_seeds_come_behind_the_defaults(tune: Tune) -> None:
    study = tune(trials=2, seeds=[{"s.step": 7}])
    assert [(c.source, c.point["s.step"]) for c in study.candidates] == [("defaults", 4), ("seed", 7)]


def test_winners_of_other_payloads_are_tried_first(tune: Tune) -> None:
    first = tune(SCHEDULE.replace("1..8", "[4, 7, 8]"), space=None, trials=3)
    assert first.best is not None
    again = tune(SCHEDULE.replace("1..8", "[4, 7, 8]"), trials=2, sizes=[{"N": 65}])
    if first.best.point["s.step"] != 4:
        assert (again.candidates[1].source, again.candidates[1].point) == ("neighbour", first.best.point)
    else:
        assert again.candidates[1].source == "grid"


def test_what_the_model_takes_for_hopeless_is_not_compiled(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "HOPELESS", 1e-6)
    study = tune()
    assert study.candidates[0].verdict is Verdict.OK
    assert {c.verdict for c in study.candidates[1:]} == {Verdict.PRUNED}
    assert all("the model expects" in c.reason and c.build_seconds is None for c in study.candidates[1:])


def test_the_model_says_what_to_try_first(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "PER_FIRST", 2)
    study = tune(SCHEDULE.replace("1..8", "1..40"), trials=6, sampler="random")
    assert [c.source for c in study.candidates] == ["defaults", *["model"] * 3, *["random"] * 2]
    assert all(c.estimate for c in study.candidates)


def test_a_space_file(tune: Tune, tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text("knobs: {step: [5, 6]}\nsizes: [{N: 64, weight: 2}, {N: 3}]\nsampler: random\n")
    study = tune(space=path, sizes=(), sampler=None)
    assert {c.point["s.step"] for c in study.candidates} == {5, 6}


def test_ctrl_c_once_keeps_what_was_found(tune: Tune, tmp_path: Path) -> None:
    pressed = threading.Event()

    def interrupt(progress: Progress) -> None:
        if len(progress.candidates) >= 2 and not pressed.is_set():
            pressed.set()
            os.kill(os.getpid(), signal.SIGINT)

    study = tune(listener=interrupt)
    assert study.best is not None
    assert "interrupted: --resume goes on with it" in study.text()
    assert len(study.candidates) < 7
    with Ledger(tmp_path / "tune.db") as ledger:
        assert all(c.verdict is not Verdict.RUNNING for c in ledger.candidates(ledger.latest()))


@pytest.mark.slow
def test_ctrl_c_twice_ends_at_once(tune: Tune, tmp_path: Path) -> None:
    def interrupt(progress: Progress) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        tune(listener=interrupt)
    assert len(tune(resume=True).candidates) == 7
    with Ledger(tmp_path / "tune.db") as ledger:
        assert len(ledger.candidates(ledger.latest())) == 7


@pytest.mark.slow
def test_two_tuners_on_one_storage(tune: Tune, tmp_path: Path) -> None:
    tune(trials=1)
    found: list[Study] = []
    threads = [threading.Thread(target=lambda: found.append(tune(resume=True, workers=1))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    with Ledger(tmp_path / "tune.db") as ledger:
        known = ledger.candidates(ledger.latest())
    assert sorted(int(c.point["s.step"]) for c in known) == [1, 3, 4, 5, 6, 7, 8]
    assert [c.number for c in known] == list(range(7))


@pytest.mark.slow
def test_times_of_tuners_that_begin_together_are_parts_of_one(tune: Tune, tmp_path: Path) -> None:
    started = [start(tmp_path / "tune.db", SCHEDULE) for _ in range(2)]
    assert [process.wait(120) for process in started] == [0, 0]
    with Ledger(tmp_path / "tune.db") as ledger:
        known = ledger.candidates(ledger.latest())
    assert len({c.owner for c in known}) == 2
    assert [c.number for c in known if c.against == c.number] == [0]
    check_whole(tune(resume=True), [1, *range(3, 9)])


def start(path: Path, schedule: str) -> subprocess.Popen[bytes]:
    root = str(Path(__file__).parents[2])
    return subprocess.Popen([sys.executable, "-c", KILLED, str(path), root, schedule])


def kill_after(seconds: float, path: Path, schedule: str) -> None:
    process = start(path, schedule)
    time.sleep(seconds)
    process.kill()
    process.wait()


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.tune.test_tuner import PAYLOAD
from tcpx.tune.duel import QUICK
import tcpx
tcpx.tune(tcpx.parse(PAYLOAD), tcpx.parse_schedule(sys.argv[3], "s.tcps"), storage=sys.argv[1], sizes=[{"N": 64}],
          sampler="grid", effort=QUICK, processes=2, target="generic", workers=2, resume=True)
"""


@pytest.mark.slow
def test_nothing_is_lost_when_it_is_killed(tune: Tune, tmp_path: Path) -> None:
    for wait in (2.0, 4.0, 5.0):
        kill_after(wait, tmp_path / "tune.db", SCHEDULE)
    check_whole(tune(resume=True), [1, *range(3, 9)])


def test_the_folder_of_a_killed_tuner_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program = """
import os, sys, tempfile
from tcpx.tune.study_folder import study_folder
tempfile.tempdir = sys.argv[1]
with study_folder() as folder:
    (folder / "problem.pickle").touch()
    os.kill(os.getpid(), 9)
"""
    with study_folder() as held:
        for _ in range(2):
            subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
        (left,) = {path for path in tmp_path.glob("*/") if path != held}
        with study_folder() as other:
            assert not left.exists()
            assert held.exists()
            assert other.exists()
    assert not list(tmp_path.glob("*/"))


def check_whole(study: Study, steps: list[int]) -> None:
    """Every point once, each with its result, but for those that a tuner died of twice."""
    assert sorted(int(c.point["s.step"]) for c in study.candidates) == steps
    assert [c.number for c in study.candidates] == list(range(len(steps)))
    for candidate in study.candidates:
        assert candidate.verdict is Verdict.OK or "died twice" in candidate.reason


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_twenty_kills(tune: Tune, tmp_path: Path) -> None:
    wide = SCHEDULE.replace("1..8", "1..40")
    generator = random.Random(20)
    for _ in range(20):
        kill_after(generator.uniform(0.5, 6.0), tmp_path / "tune.db", wide)
    check_whole(tune(wide, resume=True), [1, *range(3, 41)])


CHECKS_ONCE = """
import tcpx

checked = []

def bind(kernel, *arrays, whole=tcpx.Kernel.bind, **options):
    checked.append(kernel)
    if len(checked) > 1:
        raise RuntimeError("the arrays are checked again")
    return whole(kernel, *arrays, **options)

def call(kernel, *arrays, **options):
    raise RuntimeError("the arrays are checked at each call")

tcpx.Kernel.bind, tcpx.Kernel.__call__ = bind, call
"""


def test_the_checks_of_arrays_are_not_timed(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "checks_once.py").write_text(CHECKS_ONCE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    assert set(verdicts(tune(trials=2, plugins=["checks_once"])).values()) == {Verdict.OK}


def test_more_threads_than_cpus(tune: Tune) -> None:
    with pytest.raises(tcpx.ArgumentError, match="more threads than CPUs"):
        tune(threads=4096)
