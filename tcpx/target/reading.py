"""From a YAML table to a Target: includes, `for` groups, validation.

    name, vector_bits, vector_registers, l1, l2, l3, l3_rate, parallel_threshold, flags, headers, tolerances
    page:     4096                          bytes of a page of memory; else that many
    core:     zen4                          how its instructions run, a file of `ports/`; else the usual way
    memory_rates: [140, 270]     bytes that one core and all read in the time of 64 vector FMAs; else unknown
    base:     x86_avx512.yaml               the table that has what this one does not say; types, rows and helpers add
    include:  [shared/scalar.yaml]          tables whose types, rows and helpers come first
    cpu_flags: [avx2, ...]                  extensions without which the target cannot run
    processors: [{vendor: AuthenticAMD, family: 25, models: [[0, 15], ..]}]       those for which `native` takes it
    found_on: [avx512_fp16, serialize]      extensions of others for which it does: a virtual machine may hide a model
    features: {avx512_vnni: {cpu_flags: [...], flags: [...]}}      optional extensions
    slow:     [avx512_bf16]                 those of them that are in use only where they are asked for
    types:    {__m512: [f32x16]}            C type -> lane types
    rows:     [{for: [{T: f32x16, ...}], rows: [{name: add_$T, ...}]}]      groups nest; a group is a row or has `rows`
    helpers:  [{for: [...], define: {tcpx_max_$T: C code}}]
    costs:    {rows: [{bytes: l2, direct: [0, 11]}, ..]}     what recipes take; else predictions
    kernels:  [{semantics: func @dot4(..) .., c: "dot4({a}, {b}, {out});", ...}]     rows of operations: `KernelRow`

A row says `slow: true` if other operations that give nearly the same are faster: only what asks for just it gets it.
A row or helper uses a helper by naming it in its C; a C type that is the name of a helper needs that helper.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from tcpx.installed import TABLES, available_targets
from tcpx.machine import CACHES
from tcpx.plurals import counted
from tcpx.processor import Processor
from tcpx.target.calibration import NUMBERS, USUAL_PAGE, digest_of, memory_rates
from tcpx.target.cores import USUAL, available_cores
from tcpx.target.errors import TargetError, unknown_name
from tcpx.target.kernels import KernelRow, read_kernel
from tcpx.target.predicted_costs import Machine, completed
from tcpx.target.recipe_costs import Costs, read_costs
from tcpx.target.rows import (
    CONDITIONS,
    KINDS,
    PLACEHOLDER,
    InstructionRow,
    LaneType,
    parse_lane_type,
)
from tcpx.target.semantics import functions, normalize, operand_count, parse_semantics
from tcpx.target.table import Node, Variables, bindings, read_table, substitute
from tcpx.target.target import Target

_PROCESSOR_ENTRY = ("vendor", "family", "models")
_SIZES = ("vector_bits", "vector_registers", "l1", "l2", "l3", "l3_rate", "parallel_threshold")
_RATES = "memory_rates"
_PAGE = "page"
_CORE = "core"
_SHARED_KEYS = ("types", "rows", "helpers", "kernels", "tolerances")
_PROCESSOR_KEYS = ("processors", "found_on")
"""Which processors a table is for: not those of its base."""
_DERIVED_KEYS = (
    *("name", "base", "flags", "headers", "cpu_flags", *_PROCESSOR_KEYS, "slow", "costs"),
    *_SIZES,
    *(_RATES, _PAGE, _CORE),
    *_SHARED_KEYS,
)
_KEYS = (*_DERIVED_KEYS, "include", "features")
_NATIVE_KEYS = ("types", "rows", "helpers", "kernels", "headers", "flags", "features", "include")
"""What puts text of the table into C, or on the command line of the compiler."""
_ROW_KEYS = ("name", "kind", "type", "semantics", "c", "requires", "condition", "alignment", "lanes", "slow")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def numbers_node(numbers: str) -> dict[str, Node]:
    return Node(json.loads(numbers), "the numbers of a machine: ").fields(NUMBERS)


def table_of(name: str) -> Node:
    """Raises TargetError where there is no such table."""
    if name not in available_targets():
        raise unknown_name("target", name, (*available_targets(), "native"))
    return read_table(TABLES / f"{name}.yaml")


def is_for(fields: Mapping[str, Node], processor: Processor) -> bool:
    """Whether a table names a processor among its own. Raises TargetError."""
    return any(
        (vendor, family) == (processor.vendor, processor.family) and first <= processor.model <= last
        for vendor, family, first, last in _processors(fields)
    )


def _processors(fields: Mapping[str, Node]) -> list[tuple[str, int, int, int]]:
    """Vendor, family, first and last model of those that a table names. Raises TargetError."""
    found: list[tuple[str, int, int, int]] = []
    for node in fields["processors"].items() if "processors" in fields else ():
        entry = node.fields(_PROCESSOR_ENTRY)
        if len(entry) < len(_PROCESSOR_ENTRY):
            raise node.fail(f"the keys {', '.join(_PROCESSOR_ENTRY)}", found=", ".join(entry))
        for span in entry["models"].items():
            ends = [end.number() for end in span.items()]
            if len(ends) != 2:
                raise span.fail("the first and the last of models that follow each other: `[0, 15]`")
            found.append((entry["vendor"].text(), entry["family"].number(), ends[0], ends[1]))
    return found


def words(fields: Mapping[str, Node], key: str) -> tuple[str, ...]:
    return fields[key].texts() if key in fields else ()


def described(root: Node, folder: Path) -> dict[str, Node]:
    """What a table says, and what it leaves to its base. Raises TargetError."""
    fields = root.fields(_KEYS)
    if "base" not in fields:
        return fields
    fields = root.fields(_DERIVED_KEYS)
    base = read_table(_beside(folder, fields["base"].text())).fields(_KEYS)
    if "base" in base:
        raise fields["base"].fail("a table that says all itself", found=f"{base['base'].text()} as its base")
    if "name" not in fields:
        raise TargetError(
            "malformed target table", required="the key name", found="none", where=root.where.partition(":")[0]
        )
    own = {key: node for key, node in fields.items() if key not in _SHARED_KEYS}
    return {**{key: node for key, node in base.items() if key not in _PROCESSOR_KEYS}, **own}


def _beside(folder: Path, name: str) -> Path:
    """The table of this name in the folder, or else among those that are installed."""
    path = folder / name
    return path if path.exists() else TABLES / name


def read_target(path: Path, features: tuple[str, ...] | None = None, allow_native: bool = True) -> Target:
    """The target described by the table at `path`. Raises TargetError on a malformed table, an unknown feature, and on
    native code that is not allowed."""
    root = read_table(path)
    if not allow_native:
        _check_native(root, path)
    target = target_of(root, path.parent, features)
    if not target.rows:
        raise TargetError("malformed target table", required="rows", found="none", where=path.name)
    return target


def _is_installed(path: Path) -> bool:
    return path.resolve().is_relative_to(TABLES.resolve())


def _check_native(root: Node, path: Path) -> None:
    """Raise TargetError for a file outside of the package that says what goes into C or to its compiler."""
    if _is_installed(path):
        return
    fields = root.fields(_KEYS)
    found = [key for key in _NATIVE_KEYS if key in fields]
    if "base" in fields and not _is_installed(_beside(path.parent, fields["base"].text())):
        found.append("base")
    if found:
        raise TargetError(
            f"{path.name} brings native code",
            required="a table of sizes alone, or the permission to compile and run what it says",
            found=f"its {' and '.join(found) if len(found) < 3 else ', '.join(found)}",
            where=str(path),
            fix="if you trust it: `load_target(path, allow_native=True)`, or `--allow-native` on the command line",
        )


def target_of(root: Node, folder: Path, features: tuple[str, ...] | None, numbers: str = "") -> Target:
    """The target of a table, with the numbers of a machine; what it includes lies in the folder."""
    fields = _with_numbers(described(root, folder), numbers)
    file = root.where.partition(":")[0]
    for key in ("name", "headers", "flags", "types", "rows", *_SIZES):
        if key not in fields:
            raise TargetError("malformed target table", required=f"the key {key}", found="none", where=file)
    _processors(fields)  # malformed ones are refused here, too
    offered = features_of(fields)
    for feature in features or ():
        if feature not in offered:
            raise unknown_name("feature", feature, offered, where=file)
    chosen = usual_features(fields) if features is None else tuple(f for f in offered if f in features)
    own = root.fields(_KEYS)
    includes = [_beside(folder, include.text()) for include in fields["include"].items()] if "include" in fields else []
    tables = [*(read_table(path).fields(_SHARED_KEYS) for path in includes), fields]
    paths = [*includes, _beside(folder, own["base"].text()) if "base" in own else folder / file]
    if "base" in own:
        tables.append({key: node for key, node in own.items() if key in _SHARED_KEYS})
        paths.append(folder / file)
    types = _types(tables)
    helpers, needs = _helpers(tables)
    of_package = [_is_installed(path) for path in paths]

    def read_rows() -> list[InstructionRow]:
        rows = _rows(tables, of_package, types, needs, offered)
        return [r for r in rows if r.requires is None or r.requires in chosen]

    name = fields["name"].text()
    return Target(
        name=name,
        spec=(name if chosen == usual_features(fields) else "+".join((name, *(chosen or ("",)))))
        + (f"@{digest_of(numbers)}" if numbers else ""),
        **{key: fields[key].number() for key in _SIZES},
        flags=fields["flags"].texts() + tuple(flag for f in chosen for flag in offered[f][1]),
        headers=fields["headers"].texts(),
        features=chosen,
        cpu_flags=words(fields, "cpu_flags") + tuple(flag for f in chosen for flag in offered[f][0]),
        types=MappingProxyType(types),
        helpers=MappingProxyType(helpers),
        tolerances=MappingProxyType(_tolerances(tables)),
        kernels=MappingProxyType(_kernels(tables, needs, offered, chosen, folder)),
        costs=_costs(fields),
        read_rows=read_rows,
        is_installed=folder.resolve() == TABLES.resolve(),
        memory_rates=_memory_rates(fields),
        page=_page(fields),
        core=_core(fields),
        numbers=numbers,
    )


def _with_numbers(fields: dict[str, Node], numbers: str) -> dict[str, Node]:
    """A table with the numbers of a machine in place of its own; kinds of costs that were not measured stay."""
    if not numbers:
        return fields
    given = numbers_node(numbers)
    if "costs" in given and "costs" in fields:
        kinds = {name: node.value for held in (fields["costs"], given["costs"]) for name, node in held.fields().items()}
        given["costs"] = Node(kinds, given["costs"].where)
    return {**fields, **given}


def _costs(fields: Mapping[str, Node]) -> Costs:
    """What recipes cost, by the caches of the table: as measured, else as predicted."""
    caches = {cache: fields[cache].number() for cache in CACHES}
    measured: Costs = read_costs(fields["costs"], caches) if "costs" in fields else {}
    rates = {key: fields[key].number() for key in ("vector_bits", "vector_registers", "l3_rate")}
    return completed(measured, Machine(**caches, **rates, memory_rates=_memory_rates(fields)))


def _memory_rates(fields: Mapping[str, Node]) -> tuple[int, int]:
    return memory_rates(fields[_RATES]) if _RATES in fields else (0, 0)


def _core(fields: Mapping[str, Node]) -> str:
    if _CORE not in fields:
        return USUAL
    name = fields[_CORE].text()
    if name not in available_cores():
        raise unknown_name("core", name, available_cores(), where=fields[_CORE].where)
    return name


def _page(fields: Mapping[str, Node]) -> int:
    if _PAGE not in fields:
        return USUAL_PAGE
    size = fields[_PAGE].number()
    if size < 1 or size & (size - 1):
        raise fields[_PAGE].fail("a power of two")
    return size


def features_of(fields: Mapping[str, Node]) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Feature -> (cpu flags it needs, compiler flags it adds)."""
    if "features" not in fields:
        return {}
    result: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
    for feature, node in fields["features"].fields().items():
        entry = node.fields(("cpu_flags", "flags"))
        if set(entry) != {"cpu_flags", "flags"}:
            raise node.fail("the keys cpu_flags and flags")
        result[feature] = entry["cpu_flags"].texts(), entry["flags"].texts()
    return result


def usual_features(fields: Mapping[str, Node]) -> tuple[str, ...]:
    """The features that are in use where none are asked for. Raises TargetError where a slow one is none of them."""
    described = features_of(fields)
    for node in fields["slow"].items() if "slow" in fields else ():
        if node.text() not in described:
            raise node.fail(f"a feature of the table: {', '.join(described) or 'it has none'}", found=node.text())
    slow = words(fields, "slow")
    return tuple(f for f in described if f not in slow)


def _tolerances(tables: list[dict[str, Node]]) -> dict[str, int]:
    result: dict[str, int] = {}
    for table in tables:
        for function, node in table["tolerances"].fields(tuple(functions())).items() if "tolerances" in table else ():
            result[function] = node.number()
    return result


def _types(tables: list[dict[str, Node]]) -> dict[LaneType, str]:
    types: dict[LaneType, str] = {}
    for table in tables:
        for c_type, node in table["types"].fields().items() if "types" in table else ():
            for entry in node.items():
                lane_type = _lane_type(entry.text(), entry)
                if lane_type in types:
                    raise entry.fail(f"one C type for {lane_type}", found=f"{types[lane_type]} and {c_type}")
                types[lane_type] = c_type
    return types


def _lane_type(text: str, node: Node) -> LaneType:
    try:
        return parse_lane_type(text)
    except TargetError as error:
        known = error.diagnostic
        raise node.fail(known.required or "", found=known.found) from error


def _helpers(tables: list[dict[str, Node]]) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Helper -> its code, and helper -> itself and all it uses; both in an order in which the code compiles."""
    code: dict[str, str] = {}
    for table in tables:
        for group in table["helpers"].items() if "helpers" in table else ():
            entry = group.fields(("for", "define"))
            if "define" not in entry:
                raise group.fail("the key define")
            for variables in bindings(entry.get("for"), {}):
                for name_text, node in entry["define"].fields().items():
                    name = substitute(Node(name_text, node.where), variables)
                    if name in code:
                        raise node.fail(f"one definition of {name}", found="two")
                    code[name] = substitute(node, variables).rstrip()
    needs: dict[str, tuple[str, ...]] = {}
    for name in code:
        _visit(name, code, needs, ())
    return {name: code[name] for name in needs}, needs


def _visit(name: str, code: Mapping[str, str], needs: dict[str, tuple[str, ...]], above: tuple[str, ...]) -> None:
    if name in above:
        raise TargetError(
            "helpers use each other in a circle", required="an order to define them", found=" -> ".join((*above, name))
        )
    if name in needs:
        return
    used = _named(code[name], code) - {name}
    for other in sorted(used):
        _visit(other, code, needs, (*above, name))
    needs[name] = (*_closure(used, needs), name)


def _named(code: str, helpers: Mapping[str, object]) -> set[str]:
    return {word for word in _IDENTIFIER.findall(code) if word in helpers}


def _closure(names: set[str], needs: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    everything = {helper for name in names for helper in needs[name]}
    return tuple(name for name in needs if name in everything) if everything else ()


def _rows(
    tables: list[dict[str, Node]],
    of_package: list[bool],
    types: Mapping[LaneType, str],
    needs: Mapping[str, tuple[str, ...]],
    features: Mapping[str, object],
) -> list[InstructionRow]:
    """All rows of the tables. Raises TargetError for a row of a user that an earlier one hides."""
    rows: dict[str, InstructionRow] = {}
    purposes: dict[tuple[object, ...], list[InstructionRow]] = {}
    for table, is_installed in zip(tables, of_package, strict=True):
        for node, fields, variables in _expand(table["rows"], {}) if "rows" in table else ():
            row = replace(_row(node, fields, variables, types, needs), is_installed=is_installed)
            known = purposes.setdefault(row.purpose, [])
            earlier = None if is_installed else next((r for r in known if r.hides(row)), None)
            known.append(row)
            if earlier is not None:
                raise node.fail(
                    "rows that do what no earlier row does: of two that do the same, the first is taken",
                    found=f"{row.name}, after {earlier.name}{' of the base' if earlier.is_installed else ''}",
                    fix=f"leave {row.name} out",
                )
            if row.name in rows:
                raise node.fail(f"one row named {row.name}", found="two")
            if row.requires is not None and row.requires not in features:
                raise node.fail(f"a feature of the table: {', '.join(features) or 'it has none'}", found=row.requires)
            rows[row.name] = row
    return list(rows.values())


def _kernels(
    tables: list[dict[str, Node]],
    needs: Mapping[str, tuple[str, ...]],
    features: Mapping[str, object],
    chosen: tuple[str, ...],
    folder: Path,
) -> dict[str, KernelRow]:
    rows: dict[str, KernelRow] = {}
    for node in (node for table in tables if "kernels" in table for node in table["kernels"].items()):
        row = read_kernel(node, lambda code: _closure(_named(code, needs), needs), folder)
        if row.name in rows:
            raise node.fail(f"one row named {row.name}", found="two")
        if row.requires is not None and row.requires not in features:
            raise node.fail(f"a feature of the table: {', '.join(features) or 'it has none'}", found=row.requires)
        rows[row.name] = row
    return {name: row for name, row in rows.items() if row.requires is None or row.requires in chosen}


def _expand(group: Node, variables: Variables) -> Iterator[tuple[Node, dict[str, Node], Variables]]:
    """Every row of a list of groups, with the variables in scope."""
    for node in group.items():
        fields = node.fields(("for", "rows", *_ROW_KEYS))
        if "rows" not in fields:
            yield node, fields, variables
            continue
        if set(fields) - {"for", "rows"}:
            raise node.fail("a group with only the keys for and rows, or a row", found=", ".join(fields) or "no keys")
        for local in bindings(fields.get("for"), variables):
            yield from _expand(fields["rows"], local)


def _row(
    node: Node,
    fields: Mapping[str, Node],
    variables: Variables,
    types: Mapping[LaneType, str],
    needs: Mapping[str, tuple[str, ...]],
) -> InstructionRow:
    def text(key: str) -> str | None:
        return substitute(Node(fields[key].scalar_text(), fields[key].where), variables) if key in fields else None

    name, signature, c = text("name"), text("type"), text("c")
    if name is None or signature is None or c is None:
        raise node.fail("a row with at least the keys name, type and c", found=", ".join(fields) or "no keys")
    place = Node(name, f"{node.where} {name}")
    kind = text("kind") or "compute"
    if kind not in KINDS:
        raise unknown_name("kind of row", kind, KINDS, where=place.where)
    operands, result = _signature(signature, place, types)
    semantics = text("semantics")
    if semantics is not None:
        try:
            semantics = normalize(semantics)
        except TargetError as error:
            raise error.at(place.where) from error
    condition = text("condition")
    if condition is not None and condition not in CONDITIONS:
        raise place.fail(f"a condition among {', '.join(CONDITIONS)}", found=condition)
    alignment = text("alignment")
    if alignment is not None and not alignment.isdigit():
        raise place.fail("an alignment in bytes", found=alignment)
    row = InstructionRow(
        name=name,
        kind=kind,
        result=result,
        operands=operands,
        semantics=semantics,
        c=c,
        requires=text("requires"),
        condition=condition,
        alignment=int(alignment or 0),
        helpers=_closure(_named(c, needs) | _type_helpers(operands, result, types, needs), needs),
        lanes=tuple(entry.number() for entry in fields["lanes"].items()) if "lanes" in fields else (),
        is_slow="slow" in fields and fields["slow"].truth(),
    )
    _check(row, place)
    return row


def _signature(text: str, place: Node, types: Mapping[LaneType, str]) -> tuple[tuple[LaneType, ...], LaneType | None]:
    left, arrow, right = text.partition("->")
    if not arrow:
        raise place.fail("a type such as `f32x16, f32x16 -> f32x16`", found=repr(text))
    operands = tuple(_lane_type(x, place) for x in left.split(",") if x.strip())
    result = _lane_type(right, place) if right.strip() else None
    for lane_type in (*operands, *((result,) if result else ())):
        if lane_type not in types:
            raise place.fail(f"a C type for {lane_type}", found="none", fix="add it to `types`")
    return operands, result


def _type_helpers(
    operands: tuple[LaneType, ...],
    result: LaneType | None,
    types: Mapping[LaneType, str],
    needs: Mapping[str, tuple[str, ...]],
) -> set[str]:
    return {types[t] for t in (*operands, *((result,) if result else ())) if types[t] in needs}


def _check(row: InstructionRow, place: Node) -> None:
    """A row has what its kind says: a result or none, semantics or none, its placeholders in the template."""
    kind = KINDS[row.kind]
    if (row.result is not None) != kind.has_result:
        raise place.fail(f"{'a' if kind.has_result else 'no'} result, as a {row.kind}", found=row.signature)
    if (row.semantics is not None) != kind.has_semantics:
        required = "semantics" if kind.has_semantics else "no semantics"
        raise place.fail(f"{required}, as a {row.kind}", found=str(row.semantics))
    if row.semantics is not None and operand_count(parse_semantics(row.semantics)) != len(row.operands):
        raise place.fail(f"as many operands as {row.semantics!r} reads", found=row.signature)
    if not kind.has_semantics and len(row.operands) != len({"a", "b", "v"} & set(kind.placeholders)):
        raise place.fail(f"one operand per value of {', '.join(kind.placeholders) or 'none'}", found=row.signature)
    if set(PLACEHOLDER.findall(row.c)) != set(row.placeholders):
        raise place.fail(f"the placeholders {', '.join(row.placeholders) or 'none'} in the template", found=row.c)
    is_shuffle = row.kind == "shuffle"
    given = sum(operand.lanes for operand in row.operands)
    wanted = row.result.lanes if is_shuffle and row.result is not None else 0
    if len(row.lanes) != wanted or any(lane >= given for lane in row.lanes):
        required = f"{counted(wanted, 'number')} of lanes below {given}" if is_shuffle else f"no lanes, as a {row.kind}"
        raise place.fail(required, found=", ".join(map(str, row.lanes)) or "none")
