"""The operation families; importing this package registers them all."""

from tcpx.payload.ops import (
    activation,
    assertion,
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
    views,
)

__all__ = [
    "activation",
    "assertion",
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
    "views",
]
