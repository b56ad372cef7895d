"""What tcpx consists of, where it is installed: its code, the library of schedules, the tables of targets."""

from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parent
CODE: Final = (".py", ".lark", ".yaml")
"""The suffixes of the files that it does what it does by."""
_BESIDE: Final = PACKAGE / "schedules"
LIBRARY: Final = _BESIDE if _BESIDE.is_dir() else PACKAGE.parent / "schedules"
"""The installed schedule library; in a checkout it stands beside the package."""
TABLES: Final = PACKAGE / "target"


def available_targets() -> tuple[str, ...]:
    """Names of the installed tables, in alphabetical order. `native` stands for one of them."""
    return tuple(sorted(path.stem for path in TABLES.glob("*.yaml")))
