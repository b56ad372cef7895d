"""Which tests say what target they are about, by a parameter: they do the same on every CPU, or are skipped where it
cannot run that target. The others are about the CPU that runs them. A plugin of pytest marks them."""

from __future__ import annotations

from typing import Final

import pytest

from tcpx.target import Target, available_targets

MARK: Final = "names_target"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark them, before `-m` selects."""
    known = set(available_targets())
    for item in items:
        callspec = getattr(item, "callspec", None)
        values = callspec.params.values() if callspec is not None else ()
        if any((value.name if isinstance(value, Target) else value) in known for value in values if _is_name(value)):
            item.add_marker(MARK)


def _is_name(value: object) -> bool:
    return isinstance(value, str | Target)
