"""The one import for size arithmetic.

A dim is an int or a `Size`: a normal form over symbols and loop variables. Expressions as data live in
`size_expressions.py`, simplifying constructors in `size_arithmetic.py`, replacement in `size_substitution.py`,
proofs in `bounds.py` (with `proof_form.py` and `monotone.py`), bounds as expressions in `size_limits.py`; conditions
on sizes in `predicates.py`.
"""

from tcpx.payload.bounds import (
    arguments_of_minimum,
    is_equal,
    is_less,
    is_less_equal,
    known_divisor,
    lower_bound,
    upper_bound,
)
from tcpx.payload.size_arithmetic import align_up, ceildiv, floordiv, maximum, minimum, mod
from tcpx.payload.size_expressions import (
    Atom,
    CeilDiv,
    Dim,
    Division,
    ElementOf,
    Extremum,
    FloorDiv,
    Max,
    Min,
    Mod,
    Operand,
    Size,
    Symbol,
    Var,
    as_dim,
    product,
    to_text,
)
from tcpx.payload.size_limits import last_value, lower_expression, not_negative, upper_expression
from tcpx.payload.size_substitution import Substitution, simplify, substitute
from tcpx.payload.size_traversal import as_symbol, at_least_one, evaluate, symbols, told_symbol, variables

__all__ = [
    "Atom",
    "CeilDiv",
    "Dim",
    "Division",
    "ElementOf",
    "Extremum",
    "FloorDiv",
    "Max",
    "Min",
    "Mod",
    "Operand",
    "Size",
    "Substitution",
    "Symbol",
    "Var",
    "align_up",
    "arguments_of_minimum",
    "as_dim",
    "as_symbol",
    "at_least_one",
    "ceildiv",
    "evaluate",
    "floordiv",
    "is_equal",
    "is_less",
    "is_less_equal",
    "known_divisor",
    "last_value",
    "lower_bound",
    "lower_expression",
    "maximum",
    "minimum",
    "mod",
    "not_negative",
    "product",
    "simplify",
    "substitute",
    "symbols",
    "to_text",
    "told_symbol",
    "upper_bound",
    "upper_expression",
    "variables",
]
