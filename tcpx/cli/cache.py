"""tcpx cache: what the cache of compiled kernels holds, and emptying it."""

from __future__ import annotations

import argparse

from tcpx.cache import cache_info, clear_cache, size_text
from tcpx.cli.options import Subcommand
from tcpx.plurals import counted


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("info", "clear"),
        help="info: where it is, what it holds, and its limit; clear: remove all that tcpx put there",
    )


def _execute(options: argparse.Namespace) -> int:
    if options.action == "info":
        print(cache_info())
    else:
        found = clear_cache()
        count = sum(part.entries for part in found.parts.values())
        directories = ", ".join(map(str, found.directories))
        print(f"removed {counted(count, 'entry')}, {size_text(found.bytes)}, from {directories}")
    return 0


CACHE = Subcommand(
    name="cache",
    summary="show or clear the cache of compiled kernels",
    description="Show what the cache of compiled kernels holds, or remove it. $TCPX_CACHE_DIR says where it is,\n"
    "$TCPX_CACHE_LIMIT how much it may hold, such as 500M or 2G (1 GiB if it is not set): what was used least\n"
    "recently goes first.",
    example="tcpx cache info",
    add_arguments=_add_arguments,
    execute=_execute,
)
