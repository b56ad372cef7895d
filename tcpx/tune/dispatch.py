"""Winners of several sizes as one schedule, which chooses among them when the kernel runs."""

from collections.abc import Sequence
from pathlib import Path

import tcpx
from tcpx.dispatch import freeze_dispatch
from tcpx.tune.study import Study


def dispatch(studies: Sequence[Study], folder: str | Path = ".") -> str:
    """The text of a schedule with the winner of each study, for its sizes and those near them; `folder` is where the
    text will lie. Raises ArgumentError for studies without a winner, or of more than one workload."""
    for study in studies:
        if study.winner is None or len(study.workloads) != 1:
            raise tcpx.ArgumentError(
                tcpx.Diagnostic(
                    "a version of a dispatch is the winner for one workload",
                    required="studies with a winner and one workload each",
                    found=f"study {study.key.key}: {'; '.join(map(str, study.workloads))}"
                    + ("" if study.winner is not None else ", without a winner"),
                )
            )
    first = studies[0]
    times = {f"{study.workloads[0]}": study.provenance().get("time", "the defaults") for study in studies}
    told = {name: value for name, value in first.provenance().items() if name in ("tcpx", "made")}
    return freeze_dispatch(
        first.module,
        first.schedule,
        [(dict(study.workloads[0].sizes), study.params) for study in studies],
        target=first.target,
        threads=first.threads,
        provenance={**told, "target": first.target, "cpu": first.key.facts.get("cpu", ""), **times},
        folder=folder,
    )
