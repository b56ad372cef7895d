"""The schedule language and its transforms. What a transform from another package is declared with is named here."""

from __future__ import annotations

from tcpx.transform.declaration import (
    BOOL,
    DIM,
    DIM_SIZES,
    DIMS,
    DTYPE,
    FLOAT,
    FUNC,
    INT,
    INTS,
    LAYOUT,
    LOOP,
    LOOPS,
    NAME,
    OP,
    OP_OR_LOOP,
    OPS,
    PREDICATE,
    REQUIRED,
    SIZE,
    STRING,
    VALUE,
    Arguments,
    Category,
    Parameter,
    Result,
    Results,
    Transform,
    TransformContext,
    enum,
    op_of,
    plugin_problems,
    register,
    transforms,
)  # fmt: skip
from tcpx.transform.reference import terminal_page

__all__ = [
    "BOOL", "DIM", "DIMS", "DIM_SIZES", "DTYPE", "FLOAT", "FUNC", "INT", "INTS", "LAYOUT", "LOOP", "LOOPS", "NAME",
    "OP", "OPS", "OP_OR_LOOP", "PREDICATE", "REQUIRED", "SIZE", "STRING", "VALUE", "Arguments", "Category",
    "Parameter", "Result", "Results", "Transform", "TransformContext", "enum", "op_of", "plugin_problems", "register",
    "terminal_page", "transforms",
]  # fmt: skip
