"""All rows of a target as one C file: one function a row, behind one entry that takes the row's number (ENTRY).

Rows of values read `count` operands from the arrays a, b, c and write `count` results to `out`; extract and insert do
so for every lane of `tested_lanes`; `lead` is given the address of each element of `a`. Rows of memory access `a`
(loads) or `out` (stores) once, with the lane count `n`, the stride `s` and the first lane in `count`; a gather of `n`
elements reads its places from `b`, and what other lanes are from `c`.
"""

from collections.abc import Sequence
from typing import Final

from tcpx.target import InstructionRow, LaneType, Target, TargetError

PARAMETERS: Final = "const void *a, const void *b, const void *c, void *out, int64_t count, int64_t n, int64_t s"
ENTRY_NAME: Final = "run_row"
ENTRY: Final = f"void {ENTRY_NAME}(int64_t row, {PARAMETERS})"
MEMORY_KINDS: Final = (
    "load",
    "masked_load",
    "masked_load_from",
    "strided_load",
    "masked_strided_load",
    "masked_strided_load_from",
    "lane_mask",
    "lane_mask_from",
    "gather",
    "store",
    "masked_store",
    "stream_store",
)
_POINTED_AT: Final = "float"
"""The C type of what a row that makes a number of an address is given the address of."""


def c_source(target: Target, rows: Sequence[InstructionRow]) -> str:
    """The C file with a function for each of these rows of the target. Raises TargetError where rows are of a type of
    truth values that the target cannot load or store."""
    lines = ["#include <stdint.h>", *(f"#include <{h}>" for h in target.headers)]
    lines += target.helper_code((*rows, *_of_truth_values(target, rows)))
    for number, row in enumerate(rows):
        body = _memory_body(target, row) if row.kind in MEMORY_KINDS else _value_body(target, row)
        unused = "(void)a, (void)b, (void)c, (void)out, (void)count, (void)n, (void)s;"
        lines += [f"static void row_{number}({PARAMETERS}) {{ /* {row.name} */", unused, *body, "}"]
    lines += [f"static void (*const rows[])({PARAMETERS}) = {{", *(f"row_{k}," for k in range(len(rows))), "};"]
    lines += [f"{ENTRY};", f"{ENTRY} {{ rows[row](a, b, c, out, count, n, s); }}"]
    return "\n".join(lines) + "\n"


def tested_lanes(row: InstructionRow) -> Sequence[int | Sequence[int]]:
    """What a row is tried on: of a single lane, the ends of the register and of its 16-byte parts; of any lanes,
    repeated, reversed and mixed ones."""
    lanes = row.operands[0].lanes if row.operands else 0
    if "lane" in row.placeholders:
        return sorted({0, 1, lanes // 4 - 1, lanes // 4, lanes // 2 - 1, lanes // 2, lanes - 1} - {-1})
    if "lanes" in row.placeholders:
        repeated = [[(lanes + k) // times for k in range(lanes)] for times in (2, 3)]
        return [*repeated, [*reversed(range(lanes))], [(5 * k + 3) % (2 * lanes) for k in range(lanes)]]
    return [0]


def _of_truth_values(target: Target, rows: Sequence[InstructionRow]) -> list[InstructionRow]:
    """The rows that read and write the vectors of truth values that these rows take and give."""
    types = {t for row in rows for t in (*row.operands, row.result) if t is not None and _is_truth(t)}
    return [row for t in sorted(types) for row in (_access(target, "load", t), _access(target, "store", t))]


def _is_truth(type_: LaneType) -> bool:
    return type_.dtype == "i1" and type_.lanes > 1


def _access(target: Target, kind: str, type_: LaneType) -> InstructionRow:
    found = target.find(kind, None, type_) if kind == "load" else target.find(kind, None, None, [type_])
    if found is None:
        raise TargetError(
            f"target {target.name} cannot {kind} {type_}",
            required=f"a row of kind {kind} for {type_}, as other rows have operands or results of this type",
            found="none",
        )
    return found


def _read_value(target: Target, type_: LaneType, name: str, source: str) -> str:
    """C that declares `name` and reads it from element i of the array `source`."""
    element, c_type = target.c_type(type_.dtype), target.c_type(*type_)
    place = f"(const {element} *){source} + i * {type_.lanes}"
    if type_.lanes == 1:
        return f"{c_type} {name} = *({place});"
    if _is_truth(type_):
        return f"{c_type} {name} = {_access(target, 'load', type_).render(p=place)};"
    return f"{c_type} {name} = {{0}}; __builtin_memcpy(&{name}, {place}, {type_.lanes} * sizeof({element}));"


def _write_value(target: Target, type_: LaneType, value: str, position: str) -> str:
    """C that writes `value` to element `position` of the array out."""
    element, c_type = target.c_type(type_.dtype), target.c_type(*type_)
    place = f"({element} *)out + ({position}) * {type_.lanes}"
    if type_.lanes == 1:
        return f"*({place}) = {value};"
    if _is_truth(type_):
        return f"{{ {c_type} r = {value}; {_access(target, 'store', type_).render(p=place, v='r')}; }}"
    return f"{{ {c_type} r = {value}; __builtin_memcpy({place}, &r, {type_.lanes} * sizeof({element})); }}"


def _memory_body(target: Target, row: InstructionRow) -> list[str]:
    """C statements of a row that accesses memory once."""
    type_ = row.result or row.operands[0]
    element = target.c_type(type_.dtype)
    given = {"n": "n", "s": "s", "f": "count", "v": "x", "e": "n", "a": "x", "x": "y"}
    given |= {"p": f"({'' if row.result is None else 'const '}{element} *)m"}
    used = {key: given[key] for key in row.placeholders}
    if row.kind == "gather":
        places, rest = _read_value(target, row.operands[0], "x", "b"), _read_value(target, type_, "y", "c")
        read = _write_value(target, type_, row.render(**used), "0")
        return [f"const {element} *m = a;", "int64_t i = 0;", places, rest, read]
    if "p" not in row.placeholders and row.result is not None:
        return [_write_value(target, type_, row.render(**used), "0")]
    if row.result is not None:
        return [f"const {element} *m = a;", _write_value(target, type_, row.render(**used), "0")]
    return [f"{element} *m = out;", "int64_t i = 0;", _read_value(target, type_, "x", "a"), f"{row.render(**used)};"]


def _value_body(target: Target, row: InstructionRow) -> list[str]:
    """C statements of a row on values, in a loop over the arrays."""
    lines = [_read_value(target, t, f"x{k}", "abc"[k]) for k, t in enumerate(row.operands)]
    names = {"abc"[k]: f"x{k}" for k in range(len(row.operands))}
    if "p" in row.placeholders:
        names["p"] = f"((const {'char' if row.result is None else _POINTED_AT} *)a + i)"
    result = row.result
    if result is None:
        return ["for (int64_t i = 0; i < count; i++) {", f"{row.render(**names)};", "}"]
    tried = tested_lanes(row)
    for k, lanes in enumerate(tried):
        if "lane" in row.placeholders:
            names["lane"] = str(lanes)
        elif not isinstance(lanes, int):
            names["lanes"] = ", ".join(map(str, lanes))
        lines.append(_write_value(target, result, row.render(**names), f"i * {len(tried)} + {k}"))
    return ["for (int64_t i = 0; i < count; i++) {", *lines, "}"]
