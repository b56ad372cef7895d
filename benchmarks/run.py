"""The runner behind `tcpx bench`: workloads on tcpx and its peers, in turn, each result checked before it is timed."""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.bars import Bar, GroupBar, judge, judge_groups
from benchmarks.beside import Beside
from benchmarks.busy_core import busy_core_bar
from benchmarks.cold_compile import cold_compile_bar, warm_compile_bar
from benchmarks.command_times import command_bars
from benchmarks.elementwise_graphs import graph_bars
from benchmarks.import_time import import_bar
from benchmarks.ledger import kept
from benchmarks.ledger_page import write_page
from benchmarks.model_times import model_bars
from benchmarks.peer_figures import judge_run, load_peer_figures
from benchmarks.random_shapes import FILE as RANDOM
from benchmarks.random_shapes import random_shapes
from benchmarks.reference import reference
from benchmarks.registry import AGAIN, VARIANTS, absent, launches
from benchmarks.registry import peers as known_peers
from benchmarks.slow_cells import cells_of, report
from benchmarks.transformer import transformer_bars
from benchmarks.workloads import Workload, default_files, load_group_bars, load_workloads, select
from tcpx.cli.measuring import plan_of, threads_of
from tcpx.measure.output import write_results
from tcpx.measure.rows import Row
from tcpx.measure.session import Session
from tcpx.measure.table import table


def execute(options: argparse.Namespace) -> int:
    """Measure, print, write, judge; 1 if a bar is missed, or if something is slower than in the other revision. The
    options are those of `tcpx bench`. Raises TcpxError."""
    if options.page:
        print(f"wrote {write_page(kept(), options.page)}")
        return 0
    workloads, groups = chosen(options.workloads, options.random)
    if options.list:
        print("\n".join(workload.name for workload in workloads))
        return 0
    beside = Beside.of(options)
    peers = [*launches(options.peers.split(",") if options.peers else None), *beside.launches]
    if not options.peers:
        peers += VARIANTS.values() if options.check and beside.revision is None else ()
        for name in absent():
            print(f"not set up and not measured: {name} (make bench-peers ARGS={name})")
    rows: list[Row] = []
    for cpus in threads_of(options):
        with Session(peers, cpus, plan=plan_of(options)) as session:
            for made in measured(session, workloads, len(cpus), beside):
                print(table(made, head=not rows), flush=True)
                rows += made
            finished = session.finished()
            rows[len(rows) - len(session.rows) :] = finished
    for path in write_results(rows, options.output):
        print(f"wrote {path}")
    print(report(cells_of(rows)))
    is_worse = beside.finish(rows)
    if options.check and beside.revision is not None:
        return 1 if is_worse else 0
    return judged(workloads, groups, rows) if options.check else 0


def chosen(words: Sequence[str], seed: int | None) -> tuple[list[Workload], list[GroupBar]]:
    """The workloads that the words name, and the bars of all of them together."""
    if seed is not None:
        seed = random.SystemRandom().randrange(1 << 32) if seed < 0 else seed
        print(f"seed {seed}: the same shapes with --random {seed}")
        return load_workloads([RANDOM], random_shapes(seed)), load_group_bars([RANDOM])
    files = [Path(word) for word in words if word.endswith(".yaml")]
    globs = [word for word in words if not word.endswith(".yaml")]
    known = load_workloads(files or default_files())
    return select(known, globs), load_group_bars(files or default_files())


def measured(session: Session, workloads: Sequence[Workload], threads: int, beside: Beside) -> Iterator[list[Row]]:
    """The rows of each workload."""
    for workload in workloads:
        arrays = workload.arrays()
        expected = reference(workload, arrays)
        with tempfile.TemporaryDirectory(prefix="tcpx-bench-") as folder:
            task = workload.task(Path(folder), threads, arrays)
            rows = session.measure(task, workload.work, expected.distance)
            beside.note(session, task, rows, expected.distance)
            yield rows


def judged(workloads: Sequence[Workload], groups: Sequence[GroupBar], rows: Sequence[Row]) -> int:
    """Print every verdict, and whether the run counts; 1 if a bar is missed."""
    bars: dict[str, tuple[Bar, ...]] = {workload.name: workload.bars for workload in workloads}
    verdicts = [*judge(bars, rows), *judge_groups(groups, rows)]
    verdicts += [import_bar(), cold_compile_bar(), warm_compile_bar(), busy_core_bar(), *command_bars()]
    verdicts += [*model_bars(), *graph_bars(), *transformer_bars()]
    print("\n".join(verdict.text() for verdict in verdicts))
    print(judge_run(load_peer_figures(), [*known_peers(), AGAIN], rows).text())
    return 1 if any(verdict.is_missed for verdict in verdicts) else 0
