"""The operation families; importing this package registers them all."""

from tcpx.payload.ops import (
    activation,
    assertion,
    call,
    composite,
    constant,
    contract,
    dot_product,
    elementwise,
    generic,
    gml_st,
    group,
    memory,
    movement,
    reduce,
    select,
    vector,
)

__all__ = [
    "activation",
    "assertion",
    "call",
    "composite",
    "constant",
    "contract",
    "dot_product",
    "elementwise",
    "generic",
    "gml_st",
    "group",
    "memory",
    "movement",
    "reduce",
    "select",
    "vector",
]
