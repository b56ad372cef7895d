"""What several subcommands take: payload, schedule, target, threads, parameters; and `name=value` words."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import tcpx

Execute = Callable[[argparse.Namespace], int]
Subparsers = argparse._SubParsersAction  # pyright: ignore  # placeholder
ValueT = TypeVar("ValueT")
