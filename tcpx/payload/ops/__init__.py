"""The operation families; importing this package registers them all."""

from tcpx.payload.ops import (
    assertion,
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
    "assertion",
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
