"""tcpx tune --by-kernel: the functions of a payload, each by itself."""

import argparse
from typing import Any

import tcpx
from tcpx.cli.models import CommandPayload
from tcpx.cli.options import UsageError, params_of, schedule_of, tuned_path
from tcpx.cli.tune_commands import how_to_emit, how_to_go_on, status_of
from tcpx.cli.tune_ledger import MEBIBYTE, size_on_disk
from tcpx.tune.duel import QUICK
from tcpx.tune.executor import LOCAL
from tcpx.tune.progress import Listener
from tcpx.tune.slots import Limits
from tcpx.tune.tuner import FINAL_PROCESSES


def processes_of(options: argparse.Namespace) -> int:
    """How many sets of fresh processes `--final` asks for."""
    return options.final if options.final is not None else 2 if options.quick else FINAL_PROCESSES


def search_of(
    options: argparse.Namespace, payload: CommandPayload, limits: Limits, listener: Listener
) -> dict[str, Any]:
    """How to search, as `tcpx.tune` and `tcpx.tune_by_kernel` take it."""
    return {
        "trials": options.trials,
        "budget": options.budget,
        "storage": options.storage,
        "resume": options.resume,
        "sampler": options.sampler,
        "seed": options.seed,
        "params": params_of(options),
        "sizes": [dict(payload.sizes)] if payload.sizes else [],
        "space": options.space,
        "target": options.target,
        "threads": options.threads,
        "workers": options.workers,
        "limits": limits,
        "memory": options.memory * MEBIBYTE,
        "early_stop": options.early_stop,
        "effort": QUICK if options.quick else None,
        "processes": processes_of(options),
        "listener": listener,
    }


def tune_by_kernel(options: argparse.Namespace, payload: CommandPayload, limits: Limits, listener: Listener) -> int:
    """Tune, print the table, say how to use the records and how to go on."""
    if options.dispatch is not None or options.html is not None or options.executor != LOCAL:
        raise UsageError("--dispatch, --html and --executor are about one study, --by-kernel makes several here")
    path = options.record or tuned_path(options)
    print(f"records: {path}", flush=True)
    study = tcpx.tune_by_kernel(
        payload.module,
        schedule_of(options),
        record=path,
        **search_of(options, payload, limits, listener),
    )
    print(study.text())
    print(size_on_disk(options.storage))
    if study.has_records:
        print(f"to use the records:\n  {how_to_emit(options, payload, ['--tuned', path])}")
    if study.is_interrupted:
        print(f"to go on:\n  {how_to_go_on()}")
    return status_of(study.is_interrupted)
