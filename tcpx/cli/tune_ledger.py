"""What tcpx tune does with a ledger without searching: --show, --export, --merge."""

import argparse
import sys
from pathlib import Path
from typing import Final

import tcpx
from tcpx.plurals import counted
from tcpx.tune.export import as_csv, as_json, as_table
from tcpx.tune.ledger import Ledger

MEBIBYTE: Final = 1 << 20


def size_on_disk(storage: str) -> str:
    """What a ledger takes, with what SQLite has not moved into it yet: all that is left of a study."""
    files = [Path(storage), Path(f"{storage}-wal")]
    return f"{storage}: {sum(file.stat().st_size for file in files if file.is_file()) / MEBIBYTE:.1f} MiB"


def show(options: argparse.Namespace) -> int:
    """`--show` and `--export`: one study."""
    _require_ledger(options.storage)
    with Ledger(options.storage) as ledger:
        study = ledger.latest(options.show or None)
        candidates = ledger.candidates(study)
        if options.export is not None:
            sys.stdout.write(as_csv(candidates) if options.export == "csv" else as_json(candidates))
            return 0
        for known in ledger.studies():
            print(f"{'>' if known.id == study.id else ' '} {known.key}  {known.facts.get('workloads', '')}")
        for name, fact in study.facts.items():
            print(f"  {name}: {fact}")
        print(as_table(candidates))
        print(size_on_disk(options.storage))
    return 0


def merge(options: argparse.Namespace) -> int:
    """`--merge`: take over what another ledger has."""
    _require_ledger(options.merge)
    with Ledger(options.storage) as ledger, Ledger(options.merge) as other:
        studies, candidates = ledger.merge(other)
    print(f"{options.storage}: {studies} studies and {counted(candidates, 'candidate')} from {options.merge}")
    return 0


def _require_ledger(path: str) -> None:
    if not Path(path).is_file():
        raise tcpx.ArgumentError(
            tcpx.Diagnostic(f"there is no ledger {path}", required="a file that tcpx tune made", found="no such file")
        )
