"""What a value may be called."""

import re
from typing import Final

VALUE_NAME: Final = re.compile(r"[A-Za-z_](?:[\w.~]|/(?!/))*")
_NOT_IN_NAMES: Final = re.compile(r"[^\w.~/]|/(?=/)")


def as_value_name(text: str) -> str:
    """`text` with `_` for what a name cannot hold: an operation may be called anything, `name "a \\"b\\""`, the values
    that are made for it may not."""
    if VALUE_NAME.fullmatch(text):
        return text
    plain = _NOT_IN_NAMES.sub("_", text)
    return plain if VALUE_NAME.fullmatch(plain) else f"_{plain}"
