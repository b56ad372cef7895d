"""What makes two studies about the same thing."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

import tcpx
from tcpx.tune.space import Value
from tcpx.tune.space_file import Workload
from tcpx.tuned import setting_of


def identity_of(
    module: tcpx.Module,
    schedule: tcpx.Schedule,
    target: str,
    threads: int,
    workloads: Sequence[Workload],
    fixed: Mapping[str, Value],
    cpu: str | None = None,
) -> tuple[str, dict[str, str]]:
    """A key of 16 digits, and what it is made of. `cpu` is the processor, where it is not that of this machine."""
    setting = setting_of(module, schedule, tcpx.load_target(target), threads)
    setting = replace(setting, cpu=cpu or setting.cpu)
    facts = {
        **{name: str(value) for name, value in asdict(setting).items()},
        "workloads": "; ".join(f"{workload} x{workload.weight:g}" for workload in workloads),
        "params": ", ".join(f"{name}={value!r}" for name, value in sorted(fixed.items())),
    }
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16], facts
