"""The operation families; importing this package registers them all."""

from tcpx.payload.ops import (
    composite,
    constant,
    contract,
    elementwise,
    generic,
    gml_st,
    memory,
    movement,
    reduce,
    select,
    vector,
)

__all__ = [
    "composite",
    "constant",
    "contract",
    "elementwise",
    "generic",
    "gml_st",
    "memory",
    "movement",
    "reduce",
    "select",
    "vector",
]
