"""The peers: which there are, which are set up on this machine, how to start them; `python -m benchmarks.registry` sets
them up, in virtual environments of their own under .bench/."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

import tcpx
from tcpx.measure.peer_process import Launch

ROOT: Final = Path(__file__).parents[1]
ENVIRONMENTS: Final = ROOT / ".bench"
TABLE: Final = Path(__file__).parent / "peers.yaml"
TCPX: Final = Launch("tcpx", "tcpx.measure.kernel_peer")
AGAIN: Final = "tcpx-again"
"""tcpx a second time: how far two measurements of the same thing are apart."""
CLANG: Final = "tcpx-clang"
"""tcpx with another C compiler."""
VARIANTS: Final = {
    AGAIN: Launch(AGAIN, TCPX.module),
    CLANG: Launch(CLANG, TCPX.module, environment={"CC": "clang"}),
}


@dataclass(frozen=True, slots=True)
class PeerSpec:
    """One entry of `peers.yaml`."""

    name: str
    module: str
    environment: str | None
    requirements: tuple[str, ...]

    @property
    def interpreter(self) -> Path:
        """The Python of its environment."""
        return Path(sys.executable) if self.environment is None else ENVIRONMENTS / self.environment / "bin" / "python"

    @property
    def is_set_up(self) -> bool:
        """Whether the environment is complete."""
        return self.environment is None or (ENVIRONMENTS / self.environment / ".ready").is_file()

    @property
    def launch(self) -> Launch:
        """How its process is started."""
        return Launch(self.name, self.module, str(self.interpreter))


def peers() -> dict[str, PeerSpec]:
    """All peers by name."""
    held: dict[str, dict[str, Any]] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return {
        name: PeerSpec(name, given["module"], given.get("environment"), tuple(given.get("requirements", ())))
        for name, given in held.items()
    }


def absent() -> list[str]:
    """The peers that are not set up."""
    return [spec.name for spec in peers().values() if not spec.is_set_up]


def launches(names: Sequence[str] | None) -> list[Launch]:
    """tcpx first, then the peers of these names, or all that are set up. Raises ArgumentError for one that is not."""
    known = peers()
    if names is None:
        return [TCPX, *(spec.launch for spec in known.values() if spec.is_set_up)]
    made = [TCPX]
    for name in dict.fromkeys(names):
        if name in VARIANTS:
            made.append(VARIANTS[name])
        elif name != TCPX.name:
            if name not in known or not known[name].is_set_up:
                raise _refused(name, known)
            made.append(known[name].launch)
    return made


def set_up(spec: PeerSpec) -> str | None:
    """Make the environment of a peer and install what it needs; why that did not work, or None."""
    if spec.environment is None or spec.is_set_up:
        return None
    folder = ENVIRONMENTS / spec.environment
    install = [str(spec.interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", str(folder)], [*install, *spec.requirements]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return (done.stderr or done.stdout).strip().splitlines()[-1]
    (folder / ".ready").touch()
    return None


def main() -> int:
    """Set up the peers that are named, or all; 1 if one could not be."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.registry", description=__doc__)
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"of {', '.join(peers())}; default: all")
    wanted = parser.parse_args().peers or list(peers())
    failed = 0
    for name in wanted:
        why = set_up(peers()[name]) if name in peers() else f"there is no such peer; there are {', '.join(peers())}"
        failed += why is not None
        print(f"{name}: {'ready' if why is None else f'failed: {why}'}", flush=True)
    return 1 if failed else 0


def _refused(name: str, known: dict[str, PeerSpec]) -> tcpx.ArgumentError:
    ready = [spec.name for spec in known.values() if spec.is_set_up]
    return tcpx.ArgumentError(
        tcpx.Diagnostic(
            f"the peer {name} is not set up" if name in known else f"there is no peer {name}",
            required=f"one of {', '.join([TCPX.name, *VARIANTS, *ready])}",
            found=name,
            fix=f"make bench-peers ARGS={name}" if name in known else None,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
