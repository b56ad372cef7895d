"""tcpx tune --revalidate: the winners of a file of records, measured again."""

import argparse

from tcpx.cli.models import CommandPayload
from tcpx.cli.options import UsageError, params_of, schedule_of
from tcpx.cli.tune_by_kernel import processes_of
from tcpx.cli.tune_ledger import MEBIBYTE
from tcpx.tune.duel import QUICK
from tcpx.tune.progress import Listener
from tcpx.tune.revalidation import revalidate
from tcpx.tune.slots import Limits
from tcpx.tune.space_file import read_space_file


def revalidate_file(options: argparse.Namespace, payload: CommandPayload, limits: Limits, listener: Listener) -> int:
    """Measure, write the file, say what was kept."""
    if processes_of(options) == 0:
        raise UsageError("--revalidate is about the comparison that --final 0 leaves out")
    workloads = read_space_file(options.space).workloads if options.space is not None else ()
    found = revalidate(
        payload.module,
        schedule_of(options),
        record=options.revalidate,
        sizes=[dict(payload.sizes)] if payload.sizes else [dict(held.sizes) for held in workloads],
        seed=options.seed,
        params=params_of(options),
        target=options.target,
        threads=options.threads,
        limits=limits,
        effort=QUICK if options.quick else None,
        memory=options.memory * MEBIBYTE,
        processes=processes_of(options),
        listener=listener,
    )
    print(found.text())
    return 0
