"""The table of what recipes cost on this machine, as `costs` of a target table: `make costs`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import tcpx
from tcpx.measure.recipe_lines import KINDS, Plan, levels_of


def main(words: Sequence[str] | None = None) -> int:
    """Print the table."""
    plan = Plan()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"kinds of products: {', '.join(KINDS)} (all)")
    parser.add_argument("--target", default="native", help="the table whose levels are measured (native)")
    parser.add_argument("--patience", type=float, default=plan.patience, help=f"to settle, seconds ({plan.patience})")
    parser.add_argument("--seconds", type=float, default=plan.seconds, help=f"of a sample, at least ({plan.seconds})")
    options = parser.parse_args(words)
    unknown = [name for name in options.kinds if name not in KINDS]
    if unknown:
        parser.error(f"there is no kind {unknown[0]}: {', '.join(KINDS)}")
    target, plan = tcpx.load_target(options.target), Plan(patience=options.patience, seconds=options.seconds)
    print("costs:")
    for name in options.kinds or KINDS:
        print(f"  {name}:")
        for level in levels_of(name, target):
            print(f"    {level.entry(level.lines(target, plan))}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
