"""Functions and groups with a target of their own, which the machine of the kernel has to run as well."""

from __future__ import annotations

from functools import lru_cache

from tcpx.payload.ir import TARGET, Operation
from tcpx.target.errors import TargetError
from tcpx.target.loader import load_target
from tcpx.target.target import Target


def target_at(op: Operation, target: Target) -> Target:
    """The target of the function or group that an operation is, or is in; else `target`, that of the kernel. Raises
    VerifyError for a name that is none, or where the machine of the kernel need not run its code."""
    held = next((outer for outer in (op, *op.ancestors()) if TARGET in outer.attributes), None)
    if held is None:
        return target
    try:
        return own_target(str(held.attributes[TARGET]), target)
    except TargetError as error:
        known = error.diagnostic
        raise held.error(known.message, known.required, known.found, known.fix) from error


@lru_cache(maxsize=64)
def own_target(name: str, target: Target) -> Target:
    """The installed target of this name, with the features that `target` has in use. Raises TargetError where there is
    none, or where what runs the one need not run the other."""
    if name == target.name:
        return target
    usual = load_target(name).features
    known = load_target(name, tuple(feature for feature in usual if target.has(feature)))
    missing = [flag for flag in known.cpu_flags if flag not in target.cpu_flags]
    if missing:
        raise TargetError(
            f"what runs code for {target.name} need not run code for {name}",
            required=f"a target that needs nothing but {', '.join(target.cpu_flags) or 'the base of the architecture'}",
            found=f"{name}, with {', '.join(missing)}",
            fix=f"compile the kernel for {name}",
        )
    return known
