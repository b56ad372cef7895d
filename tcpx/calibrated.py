"""The calibration of this machine: what `tcpx calibrate` measured for `native`, a file beside the cache."""

import os
from dataclasses import replace
from pathlib import Path

from tcpx.machine import FOLDER, TABLE, VARIABLE, this_machine
from tcpx.payload.diagnostics import ArgumentError, Diagnostic
from tcpx.processor import cpu_flags
from tcpx.store.files import write_whole
from tcpx.store.place import cache_directory, no_place
from tcpx.target import Target
from tcpx.target.calibration import numbers_of
from tcpx.target.loader import native_target, target_with


def uncalibrated() -> Target:
    """`native` with the caches of the machine, and the rates and costs of its table."""
    machine = this_machine()
    found = native_target(cpu_flags(), None, machine.processor)
    return target_with(found.name, found.features, numbers_of(replace(machine, folder=None), found.name))


def calibration_path() -> Path:
    """Where the calibration is, or would be. Raises ArgumentError where `native` has no numbers of the machine, and
    CompileError where there is no place for them."""
    machine = this_machine()
    if os.environ.get(VARIABLE) == TABLE:
        raise ArgumentError(
            Diagnostic(
                "there is no machine to calibrate for",
                required=f"`native` with the numbers of the machine, without {VARIABLE}",
                found=f"{VARIABLE}={TABLE}, which gives it those of its table",
                fix=f"unset {VARIABLE}",
            )
        )
    place = replace(machine, folder=cache_directory() / FOLDER).calibration(uncalibrated().name)
    if place is None:
        raise AssertionError("a machine with a folder has a place in it")
    return place


def keep_calibration(text: str) -> Path:
    """Write the calibration, in one step. Raises CompileError where that cannot be."""
    path = calibration_path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, text.encode())
    except OSError as error:
        raise no_place(path.parent, error.strerror or str(error)) from error
    return path
