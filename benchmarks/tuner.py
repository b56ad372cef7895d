"""Whether the tuner does what it claims: six experiments, each rows of text and JSON. Slow, and for a quiet machine.

`python -m benchmarks.tuner defaults`: from bad defaults, is what it finds as fast as what the library chooses?
`.. recipes`: from recipes in a random order, is what it finds without a schedule as fast as what the library chooses?
`.. interval`: do winners, measured again, lie in the interval that was stated?
`.. rate`: how many distinct candidates a minute, and what part of the time is the search's own?
`.. bursts`: with another process that comes and goes, is the winner still the fastest of all candidates?
`.. calibrated`: without a table of costs, are the defaults as fast as what it finds, before and after `tcpx calibrate`?
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from statistics import geometric_mean
from typing import Final

import numpy as np

import tcpx
from benchmarks.calibrated import calibrate, each_recipe, emptied, own_cache, workloads
from benchmarks.shuffled_recipes import payloads, shuffled_default
from tcpx.installed import LIBRARY
from tcpx.measure.calibration import Calibration
from tcpx.measure.limits import Machine
from tcpx.measure.pinned_threads import PinnedThreads, available_cpus
from tcpx.measure.timer import settled_seconds
from tcpx.tune.duel import Effort, compare
from tcpx.tune.measurement_slot import measuring
from tcpx.tune.problem import Problem, examples_of
from tcpx.tune.slots import Limits, Slot, prepare
from tcpx.tune.space import Value
from tcpx.tune.space_file import Workload
from tcpx.tune.study import Study
from tcpx.tune.verdicts import Candidate, Comparison

Row = dict[str, object]

ROOT: Final = Path(__file__).parents[1]
BAD_DEFAULTS: Final = {"nv": "1", "mr": "1", "kc": "64", "mc": "mr", "nc": "128"}
SHAPES: Final = {"1024x1024x1024": "argument", "32x1024x1024": "constant", "127x1021x509": "constant"}
"""m x n x k, and what the right factor is."""
PRODUCT: Final = """\
{constants}func @product(%x: tensor<{m}x{k}xf32>{argument}) -> tensor<{m}x{n}xf32> {{
{constant}  %mm = tcp.matmul(%x, %w) : tensor<{m}x{n}xf32>
  tcp.return(%mm)
}}
"""
WITHIN: Final = 1.03
"""A winner that takes no more of the library's time is as fast as its choice."""
BRIEF: Final = Effort(rungs=(3, 7), patience=0.2, most=2.0)
"""For many studies: what is measured again decides."""
COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
APART: Final = 1.1
"""Defaults that take so many times as long as a winner are measured again."""
SCHEDULE: Final = """\
language 2
import "bad_gemm.tcps" as gemm

schedule tuned(root: func) {
  let mm = match one contract in root
  gemm.packed_gemm(mm)
}
"""
COMPETITOR: Final = """\
import random, sys, time
import numpy as np
generator, held = random.Random(int(sys.argv[1])), np.ones((512, 512), np.float32)
while True:
    end = time.monotonic() + generator.uniform(0.2, 3)
    while time.monotonic() < end:
        held @ held
    time.sleep(generator.uniform(0.2, 3))
"""


def product(folder: Path, shape: str, factor: str) -> tcpx.Module:
    """A matrix product of this shape; its right factor is an argument or a constant."""
    m, n, k = map(int, shape.split("x"))
    is_constant = factor == "constant"
    if is_constant:
        np.savez(folder / "w.npz", w=np.random.default_rng(0).standard_normal((k, n), np.float32))
    text = PRODUCT.format(
        m=m,
        n=n,
        k=k,
        constants='constants "w.npz"\n' if is_constant else "",
        argument="" if is_constant else f", %w: tensor<{k}x{n}xf32>",
        constant=f'  %w = tcp.const {{constant = "w"}} : tensor<{k}x{n}xf32>\n' if is_constant else "",
    )
    path = folder / "product.tcp"
    path.write_text(text, encoding="utf-8")
    return tcpx.load(path)


def badly_set(folder: Path) -> tcpx.Schedule:
    """`packed_gemm` of the library with the worst defaults that its domains hold."""
    text = (LIBRARY / "lib" / "gemm.tcps").read_text(encoding="utf-8")
    head, name, rest = text.partition("sequence packed_gemm(")
    body, end, tail = rest.partition("\n}\n")
    for knob, value in BAD_DEFAULTS.items():
        body, found = re.subn(rf"(knob {knob}: int = ).*?( in )", rf"\g<1>{value}\g<2>", body)
        if found != 1:
            raise ValueError(f"required one knob {knob} of packed_gemm, found {found}")
    (folder / "bad_gemm.tcps").write_text(head + name + body + end + tail, encoding="utf-8")
    (folder / "tuned.tcps").write_text(SCHEDULE, encoding="utf-8")
    return tcpx.load_schedule(folder / "tuned.tcps")


def defaults(options: argparse.Namespace) -> Iterator[Row]:
    """From bad defaults to the library's choice: the winner of each study beside it, in fresh processes."""
    for shape, factor in SHAPES.items():
        for seed in range(options.seeds):
            with tempfile.TemporaryDirectory(prefix="tcpx-tuner-") as name:
                folder = Path(name)
                module, schedule = product(folder, shape, factor), badly_set(folder)
                study = tcpx.tune(module, schedule, trials=options.trials, seed=seed, sampler=options.sampler)
            beside = study.final.against_no_schedule
            first = study.final.against_defaults
            row = {
                "shape": shape,
                "right factor": factor,
                "seed": seed,
                **facts_of(study),
                "of the library's time": beside and interval_text(beside),
                "of the defaults' time": first and f"{first.ratio:.3f}",
            }
            yield row


def recipes(options: argparse.Namespace) -> Iterator[Row]:
    """From shuffled recipes, nothing known of their cost, to the library's choice, in fresh processes."""
    for name, module in payloads():
        with tempfile.TemporaryDirectory(prefix="tcpx-tuner-") as folder:
            schedule = shuffled_default(Path(folder), options.seeds)
            study = tcpx.tune(module, schedule, trials=options.trials, seed=0, sampler=options.sampler)
        beside, first = study.final.against_no_schedule, study.final.against_defaults
        row = {
            "payload": name,
            **facts_of(study),
            "of the library's time": beside and interval_text(beside),
            "within 3 %": beside is not None and beside.ratio <= WITHIN,
            "of the first recipe's time": first and f"{first.ratio:.3f}",
        }
        yield row


def interval(options: argparse.Namespace) -> Iterator[Row]:
    """What a study says of its winner, and what as many pairs of fresh processes say."""
    for seed in range(options.seeds):
        module, schedule, sizes = digits()
        study = tcpx.tune(module, schedule, trials=options.trials, seed=seed, sizes=[sizes], sampler=options.sampler)
        best = study.best
        rivals = {"the defaults": (study.first, study.final.against_defaults)}
        if best is not None:
            beaten = next((c for c in study.candidates if c.number == best.against != best.number), None)
            rivals["the incumbent it beat"] = (beaten, best.comparison)
        with stage(module, schedule, sizes, {}) as beside:
            for name, (rival, stated) in rivals.items():
                if best is None or rival is None or stated is None or rival.c_hash == best.c_hash:
                    continue
                found = [beside(best, rival) for _ in range(options.repeats)]
                inside = sum(stated.low <= ratio <= stated.high for ratio in found)
                row = {
                    "seed": seed,
                    **facts_of(study),
                    "beside": name,
                    "stated": interval_text(stated),
                    "width": f"{(stated.high - stated.low) / stated.ratio:.1%}",
                    "again": [round(ratio, 4) for ratio in found],
                    "inside": f"{inside} of {len(found)}",
                }
                yield row


def rate(options: argparse.Namespace) -> Iterator[Row]:
    """Distinct candidates that were checked and timed in a minute of search."""
    for seed in range(options.seeds):
        module, schedule, sizes = digits()
        study = tcpx.tune(module, schedule, trials=options.trials, seed=seed, sizes=[sizes], processes=0)
        yield {"seed": seed, **facts_of(study)}


def bursts(options: argparse.Namespace) -> Iterator[Row]:
    """Studies beside a process that comes and goes; then the winners, and the fastest few of all candidates of all
    studies, beside one another on a quiet machine."""
    pinned = {"*.kc": 256, "*.nc": 128}
    with tempfile.TemporaryDirectory(prefix="tcpx-tuner-") as name:
        folder = Path(name)
        module, schedule = product(folder, "256x256x256", "argument"), badly_set(folder)
        space = folder / "space.yaml"
        space.write_text('knobs:\n  "*.mc": [96]\n', encoding="utf-8")
        studies: list[Study] = []
        for seed in range(options.runs):
            with competitors(seed):
                study = tcpx.tune(
                    module, schedule, trials=options.trials, seed=seed, params=pinned, space=space, processes=0
                )
            studies.append(study)
            yield {"run": seed, **facts_of(study)}
        winners = [study.best for study in studies if study.best is not None]
        held = {best.c_hash: best for best in winners}
        for study in studies:
            measured = sorted((c for c in study.candidates if c.is_measured), key=lambda c: c.relative or 1.0)
            held.update({c.c_hash: c for c in measured[: options.fastest]})
        with stage(module, schedule, {}, pinned) as beside:
            times = {
                c_hash: geometric_mean([beside(candidate, winners[0]) for _ in range(options.repeats)])
                for c_hash, candidate in held.items()
            }
    least = min(times.values())
    for k, best in enumerate(winners):
        yield {"run": k, "winner": f"#{best.number}", "of the fastest's time": f"{times[best.c_hash] / least:.3f}"}


def calibrated(options: argparse.Namespace) -> Iterator[Row]:
    """The defaults on a processor without a table, before a calibration and after it, beside what the tuner finds from
    there: all in turn in one process, and what is `APART` again, in fresh processes."""
    with own_cache() as folder:
        before = emptied(folder)
        after = calibrate(before, options.calibration or folder / "calibration.yaml")
        for name, module in workloads():
            if fnmatch(name, options.only):
                study = tcpx.tune(
                    module,
                    trials=options.trials,
                    budget=options.budget,
                    seeds=each_recipe(module),
                    effort=BRIEF,
                    processes=0,
                )
                yield {"workload": name, **facts_of(study), **beside_tuned(module, study, before, after, options)}


def beside_tuned(
    module: tcpx.Module, study: Study, before: tcpx.Target, after: tcpx.Target, options: argparse.Namespace
) -> Row:
    """How many times as long as the winner of a study the defaults take on each target, and what each chose."""
    params = {} if study.best is None else study.best.params
    given: dict[str, tuple[tcpx.Target, Mapping[str, Value]]]
    given = {"before": (before, {}), "after": (after, {}), "tuned": (after, params)}
    arrays = tcpx.random_inputs(module, 0)
    kernels = {name: tcpx.compile(module, target=target, params=held) for name, (target, held) in given.items()}
    codes = {name: COMMENT.sub("", kernel.c_source) for name, kernel in kernels.items()}
    runs = {codes[name]: kernel.bind(*arrays) for name, kernel in kernels.items()}  # one of the same C: memory differs
    found, is_settled = settled_seconds(runs, options.patience)
    times = {name: found[code] for name, code in codes.items()}
    row: Row = {"microseconds": {name: round(seconds * 1e6, 2) for name, seconds in times.items()}}
    row |= {name: round(times[name] / times["tuned"], 3) for name in ("before", "after")}
    if not is_settled:
        row["unsettled"] = True
    if study.best is not None and study.first is not None and study.best.c_hash != study.first.c_hash:
        row["defaults"] = dict(study.first.point)
        if times["after"] > APART * times["tuned"]:
            with stage(module, tcpx.program_or_default(None), {}, {}) as beside:
                again = [beside(study.first, study.best) for _ in range(options.repeats)]
            row["in fresh processes"] = round(geometric_mean(again), 3)
    return row


def digits() -> tuple[tcpx.Module, tcpx.Schedule, dict[str, int]]:
    """The digits model for 64 images."""
    module = tcpx.load(ROOT / "examples" / "digits" / "digits.tcp")
    return module, tcpx.load_schedule(LIBRARY / "digits.tcps"), {"B": 64}


@contextmanager
def stage(
    module: tcpx.Module, schedule: tcpx.Schedule, sizes: Mapping[str, int], fixed: Mapping[str, Value]
) -> Generator[Callable[[Candidate, Candidate], float]]:
    """Gives the time of a candidate as a part of another's, in two fresh processes each time."""
    workloads = (Workload(tuple(sizes.items())),)
    cpus = available_cpus()[:1]
    target = tcpx.load_target("native")
    problem = Problem(module, schedule, target, 1, cpus, examples_of(module, workloads, 0), fixed)
    with tempfile.TemporaryDirectory(prefix="tcpx-tuner-") as name, PinnedThreads(cpus) as pinned:
        path = Path(name, "problem.pickle")
        problem.write(path)
        calibration: Calibration = Machine(target, pinned).calibration
        slots = [Slot(path, Path(name, "builds"), available_cpus(), Limits()) for _ in range(2)]

        def beside(candidate: Candidate, other: Candidate) -> float:
            for slot, held in zip(slots, (candidate, other), strict=True):
                slot.renew()
                prepare(slot, held)
            with measuring():
                return compare(slots[0], slots[1], [1.0], calibration, Effort()).ratio

        try:
            yield beside
        finally:
            for slot in slots:
                slot.close()


@contextmanager
def competitors(seed: int) -> Generator[None]:
    """A process for each CPU that computes for up to three seconds, and sleeps as long, again and again."""
    made = [subprocess.Popen([sys.executable, "-c", COMPETITOR, str(seed * 100 + cpu)]) for cpu in available_cpus()]
    try:
        yield
    finally:
        for process in made:
            process.kill()
            process.wait()


def facts_of(study: Study) -> Row:
    """What a study did."""
    distinct = {c.c_hash for c in study.candidates if c.is_measured and c.alike is None}
    minutes = study.seconds / 60
    return {
        "candidates": len(study.candidates),
        "distinct and timed": len(distinct),
        "seconds": round(study.seconds, 1),
        "a minute": round(len(distinct) / minutes, 1),
        "search": f"{1 - study.trying / study.seconds:.1%}",
        "winner": {} if study.best is None else dict(study.best.point),
    }


def interval_text(found: Comparison) -> str:
    """A ratio with its interval."""
    return f"{found.ratio:.3f} ({found.low:.3f}..{found.high:.3f}){'' if found.steady else ', machine busy'}"


def said(row: Row) -> Row:
    """Print a row."""
    print(", ".join(f"{name}: {value}" for name, value in row.items()), flush=True)
    return row


EXPERIMENTS: Final = {
    "defaults": defaults,
    "recipes": recipes,
    "interval": interval,
    "rate": rate,
    "bursts": bursts,
    "calibrated": calibrated,
}


def main(words: Sequence[str] | None = None) -> int:
    """Run one experiment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--trials", type=int, default=200, help="candidates of a study (200)")
    parser.add_argument("--seeds", type=int, default=3, help="studies, of seeds 0, 1, .. (3)")
    parser.add_argument("--repeats", type=int, default=10, help="pairs of fresh processes (10)")
    parser.add_argument("--runs", type=int, default=10, help="studies with bursts (10)")
    parser.add_argument("--fastest", type=int, default=5, help="candidates of each study that are measured again (5)")
    parser.add_argument("--budget", type=float, help="seconds of a study of `calibrated`; else all trials")
    parser.add_argument("--patience", type=float, default=3.0, help="seconds for times of `calibrated` to settle (3)")
    parser.add_argument("--only", default="*", help="workloads of `calibrated`: a glob")
    parser.add_argument("--calibration", type=Path, help="a file that is used, or written where it is not there")
    parser.add_argument("--sampler", help="that of the tuner, unless given")
    parser.add_argument("-o", "--output", type=Path, help="rows as JSON")
    options = parser.parse_args(words)
    rows: list[Row] = []
    for row in EXPERIMENTS[options.experiment](options):
        rows.append(said(row))
        if options.output is not None:  # after each: a run of an hour may be cut short
            options.output.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
