"""From payload text to a module. Every operation knows where it came from; every error points into the text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final

from lark import Token

from tcpx.payload.constants import Constants, NumpyArray
from tcpx.payload.declared_bodies import check_declared_bodies
from tcpx.payload.diagnostics import Diagnostic, Direction, Location, ParseError, TcpxError, check_text
from tcpx.payload.disjointness import check_reads_of_parallel_loops
from tcpx.payload.inside import check_subsets
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import (
    CALLEE,
    INOUT,
    NUMBERS,
    RESULT_NAMES,
    Block,
    FuncOp,
    Module,
    Operation,
    Value,
    operation_class,
)
from tcpx.payload.ops.constant import Const, written_array
from tcpx.payload.ops.generic import Yield
from tcpx.payload.ops.gml_st import If, IfValue, Loop, uncounted
from tcpx.payload.ops.other_names import Statement, advice, operation_with
from tcpx.payload.ops.shorthand import Shorthand, standing_nowhere
from tcpx.payload.safetensors import SUFFIX, SafetensorsArchive
from tcpx.payload.short_operands import OperandLike, Repeated
from tcpx.payload.sizes import Dim, Symbol, Var, floordiv, is_equal, product
from tcpx.payload.sizes_from_data import check_sizes_from_data
from tcpx.payload.stored_arrays import ArrayArchive, UnreadableArrayError
from tcpx.payload.strided import STRIDED
from tcpx.payload.text.dims import counting_up
from tcpx.payload.text.file import UnreadableError, read_text
from tcpx.payload.text.function_attributes import check_function_attributes
from tcpx.payload.text.hints import attribute_fix
from tcpx.payload.text.scope import RESERVED, Scope, suggestion
from tcpx.payload.text.subset_forms import SubsetReader
from tcpx.payload.text.syntax import Node, Source, child, children, nodes, parse_tree, tokens
from tcpx.payload.traits.indices import Indices
from tcpx.payload.traits.signature import GIVEN
from tcpx.payload.types import Type, dtype_of, shape_of
from tcpx.payload.value_ranges import RANGES, Declared, range_entries
from tcpx.payload.verifier import verify_module
from tcpx.plurals import counted
from tcpx.records import frozen

STATEMENTS = ("operation", "loop", "conditional")


def parse(
    text: str,
    file: str = "<text>",
    base_path: Path | None = None,
    constants: Constants | Mapping[str, NumpyArray] | None = None,
) -> Module:
    """The verified module a payload text stands for.

    The constants file lies in the folder `base_path` (the current one if None) or below it, unless `constants` are
    given: arrays by name. Of its arrays those are read that the payload refers to, once their headers are known to fit.
    Raises ParseError for text that does not follow the grammar or names what is not there, VerifyError for a module
    that breaks a rule of the IR; both with the place in the text. Raises ArgumentError for a path: `load` takes it.
    """
    module = parse_print(text, file, base_path, constants)
    check_subsets(module)
    check_sizes_from_data(module)
    check_reads_of_parallel_loops(module)
    check_declared_bodies(module)
    return module


def parse_print(
    text: str,
    file: str = "<text>",
    base_path: Path | None = None,
    constants: Constants | Mapping[str, NumpyArray] | None = None,
) -> Module:
    """What `parse` does, of the print of a module: its subsets and declarations are not looked at once more."""
    check_text("payload", text, "load")
    text = text.removeprefix("\ufeff")
    source = Source.of(text, file)
    tree = parse_tree(text, source)
    reader = _ModuleParser(source)
    module = reader.module(tree)
    node = child(tree, "constants")
    if constants is None and node is not None:
        name = reader.string(tokens(node)[0])
        _verify_with_file(module, reader, base_path or Path(), name, source.location(node))
    else:
        module.constants = constants.copy() if isinstance(constants, Constants) else Constants(constants)
        _verify(module, reader)
    return module


def _verify(module: Module, reader: _ModuleParser) -> None:
    _store_written(module)
    verify_module(module)
    reader.check_headers()


def _store_written(module: Module) -> None:
    """Store the constants whose elements are listed in the text, each under a name of its own."""
    for op in module.walk():
        array = written_array(op) if isinstance(op, Const) else None
        if array is not None:
            known, base = module.constants, op.name or "constant"
            free = (name for k in count() if (name := f"{base}.{k}" if k else base) not in set(known))
            name = known.name_of(array) or next(free)
            op.attributes["constant"] = name
            if name not in known:
                known.put(name, array)


def _verify_with_file(module: Module, reader: _ModuleParser, folder: Path, name: str, location: Location) -> None:
    """Read the arrays that the module refers to, once it is verified that they fit. Raises ParseError, VerifyError."""
    module.constants = Constants(source=name)
    try:
        with _archive(folder, name) as archive:
            module.constants.unread = archive.headers()
            _verify(module, reader)
            used = dict.fromkeys(op.attributes.get("constant") for op in module.walk())
            for array in archive.names:
                if array in used:
                    module.constants.keep(array, archive.read(array))
            module.constants.unread = {}
        for op in module.walk():
            if isinstance(op, Structured) and Indices(op).operands:
                op.verify()  # what the arrays hold is known now
    except UnreadableArrayError as error:
        raise ParseError(
            Diagnostic(
                f'cannot read the constants "{name}"',
                payload=location,
                required="an npz or safetensors file of arrays, in the folder of the payload or below it",
                found=str(error),
            )
        ) from error


def _archive(folder: Path, name: str) -> ArrayArchive | SafetensorsArchive:
    return SafetensorsArchive(folder, name) if name.endswith(SUFFIX) else ArrayArchive(folder, name)


def load(path: str | Path) -> Module:
    """The module in a payload file; its constants lie beside it. Raises what `parse` does, and ParseError for a
    file that cannot be read."""
    place = Path(path)
    try:
        text = read_text(place)
    except UnreadableError as error:
        raise ParseError(error.diagnostic("a payload text")) from error
    return parse(text, str(place), place.parent)


class _ModuleParser(SubsetReader):
    """Builds the IR from the syntax tree, top down, with the names in scope."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.headers: list[_Header] = []
        self._read: Value | None = None
        """The only operand of the operation whose types are being read."""

    def module(self, tree: Node) -> Module:
        made = Module(Constants())
        for node in children(tree, "func"):
            func = self._func(node)
            if func.name in made.funcs:
                raise self.source.error(
                    tokens(node)[0], f"the function @{func.name} is defined twice", required="a name that is free"
                )
            made.add(func)
        return made

    def _func(self, node: Node) -> FuncOp:
        self.enter(node)
        name = tokens(node)[0]
        scope = Scope()
        scope.symbols = self._symbols(child(node, "symbols"))
        arguments = child(node, "arguments")
        func = FuncOp(name[1:], self._arguments(arguments, scope), list(scope.symbols.values()))
        func.location = self.source.location(name)
        check_function_attributes(self.source, child(node, "attributes"))
        func.attributes.update(self.attributes(child(node, "attributes"), scope))
        self._define_arguments(arguments, func.body, scope)
        self._mark_strided(func, arguments, child(node, "func_results"))
        self._declare_ranges(func, arguments, scope)
        self._mark_states(func, arguments, child(node, "func_results"))
        self._mark_numbers(func, arguments, scope)
        self._statements(_required(child(node, "body")), func.body, scope)
        for place, demand in enumerate(self.demanded):
            func.body.insert(place, demand)
        clause = child(node, "func_results")
        declared = [self.type(nodes(n)[0], scope) for n in nodes(clause)] if clause is not None else []
        self.headers.append(_Header(func, self.source.location(clause or name), declared))
        return func

    def _symbols(self, node: Node | None) -> dict[str, Symbol]:
        found: dict[str, Symbol] = {}
        for entry in children(node, "symbol") if node is not None else ():
            name = tokens(entry)[0]
            if name in RESERVED or "." in name:
                raise self.source.error(name, f"`{name}` cannot be the name of a symbol", required="a free name")
            if name in found:
                raise self.source.error(name, f"the symbol {name} is declared twice", required="each symbol once")
            limits = child(entry, "symbol_range")
            bounds = [self.whole_number(t) for t in tokens(limits)] if limits is not None else [0]
            multiple = child(entry, "symbol_multiple")
            factor = self.whole_number(tokens(multiple)[0]) if multiple is not None else 1
            if len(bounds) > 1 and bounds[1] < bounds[0]:
                raise self.source.error(entry, "the range is empty", required="lower..upper, lower <= upper")
            if factor < 1:
                raise self.source.error(
                    entry, "a size is a multiple of 1 or more", required="an int of at least 1", found=str(factor)
                )
            found[str(name)] = Symbol(str(name), bounds[0], bounds[1] if len(bounds) > 1 else None, factor)
        return found

    def _arguments(self, node: Node | None, scope: Scope) -> list[tuple[str, Type]]:
        entries = list(children(node, "argument")) if node is not None else []
        types = [next(n for n in nodes(entry) if n.data not in ("inout", "number", "strided")) for entry in entries]
        return [(tokens(entry)[0][1:], self.type(n, scope)) for entry, n in zip(entries, types, strict=True)]

    def _define_arguments(self, node: Node | None, block: Block, scope: Scope) -> None:
        entries = list(children(node, "argument")) if node is not None else []
        for entry, value in zip(entries, block.args, strict=True):
            self._define(tokens(entry)[0], value, scope)

    def _mark_strided(self, func: FuncOp, arguments: Node | None, results: Node | None) -> None:
        """Note which arguments and results have rows at any distance."""
        entries = [entry for clause in (arguments, results) if clause is not None for entry in nodes(clause)]
        found = tuple(k for k, entry in enumerate(entries) if child(entry, "strided") is not None)
        if found and STRIDED in func.attributes:
            raise self.source.error(
                entries[found[0]],
                "what is strided is said twice",
                required=f"`strided` behind types, or the attribute `{STRIDED}`",
                found="both",
            )
        if found:
            func.attributes[STRIDED] = found

    def _declare_ranges(self, func: FuncOp, arguments: Node | None, scope: Scope) -> None:
        """Note between what the elements of arguments lie."""
        found: dict[int, Declared] = {}
        for k, entry in enumerate(nodes(arguments)) if arguments is not None else ():
            clause = child(entry, "range")
            if clause is not None:
                lower, end, *order = nodes(clause)
                words = tuple(str(tokens(n)[0]) for n in order)
                found[k] = Declared(self.dim(lower, scope), self.dim(end, scope), words)
        if found:
            func.attributes[RANGES] = range_entries(found)

    def _mark_states(self, func: FuncOp, arguments: Node | None, results: Node | None) -> None:
        """Note which arguments are state, which results are put into their memory: those of their names; and what
        other results are called."""
        entries = list(children(arguments, "argument")) if arguments is not None else []
        states = {tokens(n)[0]: k for k, n in enumerate(entries) if child(n, "inout") is not None}
        named = list(enumerate(children(results, "func_result"))) if results is not None else []
        found: dict[int, int] = {}
        called = [""] * len(named)
        taken = {value.name for value in func.args}
        for number, entry in named:
            for name in tokens(entry)[:1]:
                if name not in states and name[1:] not in taken and name[1:] not in called:
                    called[number] = name[1:]
                    continue
                if name not in states or states[name] in found:
                    is_twice = name in states or name[1:] in called
                    message = "two results are called" if is_twice else "no argument is `inout` that is called"
                    raise self.source.error(
                        name,
                        f"{message} {name}",
                        required="the name of an argument that is `inout`, or one of its own, each once",
                        found=str(name),
                    )
                found[states[name]] = number
        for name, position in states.items():
            if position not in found:
                raise self.source.error(
                    entries[position],
                    f"no result is put into the memory of {name}",
                    required=f"a result that is called {name}",
                    found="none",
                    fix=f"-> {name}: {func.args[position].type}",
                )
        if found:
            func.attributes[INOUT] = tuple(sorted(found.items()))
        if any(called):
            func.attributes[RESULT_NAMES] = tuple(called)

    def _mark_numbers(self, func: FuncOp, arguments: Node | None, scope: Scope) -> None:
        """Note which arguments are numbers that sizes are known by."""
        marks = [child(entry, "number") for entry in children(arguments, "argument")] if arguments is not None else []
        names = {k: tokens(mark)[0] for k, mark in enumerate(marks) if mark is not None}
        for name in names.values():
            if name not in scope.symbols:
                raise self.source.error(
                    name,
                    f"there is no symbol `{name}`",
                    required="a symbol of the function",
                    found=", ".join(scope.symbols) or "no symbols",
                    fix=scope.declared_with(name),
                )
        if names:
            func.attributes[NUMBERS] = tuple((k, str(name)) for k, name in names.items())

    def check_headers(self) -> None:
        """What functions return is what they declare; the operations themselves are verified by now."""
        for header in self.headers:
            returned = header.func.returned
            if [value.type for value in returned] == header.declared:
                continue
            pairs = zip(header.declared, returned, strict=False)
            wrong = [value for type_, value in pairs if type_ != value.type] or returned[len(header.declared) :]
            made = wrong[0].defining_op if wrong else None
            end = header.func.body.terminator
            raise ParseError(
                Diagnostic(
                    f"@{header.func.name} does not return what it declares",
                    payload=made.location if made is not None else end.location if end is not None else header.place,
                    required=f"{', '.join(map(str, header.declared)) or 'no results'}, declared at {header.place}",
                    found=", ".join(f"%{v.name}: {v.type}" for v in returned) or "no results",
                    fix=None if header.declared else f"declare it: -> {', '.join(str(v.type) for v in returned)}",
                )
            )

    # -- statements ----------------------------------------------------------------------------------------------

    def _statements(self, node: Node, block: Block, scope: Scope) -> None:
        for statement in children(node, *STATEMENTS):
            read = {"operation": self._operation, "loop": self._loop, "conditional": self._conditional}
            with self.nested(statement):
                op = self._located(read[str(statement.data)], statement, scope)
            tops = self.expanded(op, statement) if isinstance(op, Shorthand) else [op]
            name = child(statement, "op_name")
            if name is not None:
                tops[0].name = self.string(tokens(name)[0])
            for top in tops:
                for made in (*standing_nowhere(top), top):
                    block.append(made)
            bound = op.attributes.get("var")
            if isinstance(bound, Var) and not op.regions:
                scope.variables[bound.name] = bound
            results, values = child(statement, "results"), [v for top in tops for v in top.results]
            for token, value in zip(tokens(results) if results is not None else (), values, strict=True):
                self._define(token, value, scope)

    def _located(self, read: Callable[[Node, Scope], Operation], node: Node, scope: Scope) -> Operation:
        """An operation; what cannot be made says at least which statement it is."""
        try:
            return read(node, scope)
        except TcpxError as error:
            if error.diagnostic.payload is not None:
                raise
            raise ParseError(replace(error.diagnostic, payload=self.source.location(node))) from None

    def _operation(self, node: Node, scope: Scope) -> Operation:
        opcode = tokens(node)[0]
        cls = operation_class(opcode)
        if cls is None:
            raise self._unknown_operation(node, opcode, scope)
        attributes = self.attributes(child(node, "attributes"), scope)
        self._check_attributes(node, cls)
        callee = child(node, "callee")
        if callee is not None:
            self._check_callee(callee, cls)
            attributes = {CALLEE: str(tokens(callee)[0][1:]), **attributes}
        written, given = self._operands(child(node, "operands"), cls, scope)
        if given:
            attributes = {**attributes, GIVEN: given}
        self._read = written[0] if len(written) == 1 and isinstance(written[0], Value) else None
        types = self._result_types(node, scope)
        self._read = None
        operands = self.written_out(child(node, "operands"), cls, written, types, next(iter(_result_names(node)), ""))
        subset = next(children(node, "tile", "full", "point"), None)
        if subset is not None:
            if not hasattr(cls, "subset"):
                raise self.source.error(
                    subset,
                    f"{opcode} works on whole operands",
                    required="no subset",
                    fix=Direction("read the subset before: `%part = gml_st.materialize(%x) tile [..] [..] : TYPE`"),
                )
            if "subset" in attributes:
                raise self.source.error(subset, "the subset is given twice", required="a tile or an attribute")
            attributes = {"subset": self.subset(subset, operands, scope), **attributes}
        regions = child(node, "regions")
        blocks = [self._region(n, scope) for n in nodes(regions)] if regions is not None else []
        names, place = _result_names(node), self.source.location(node)
        if child(node, "filter") is not None or child(node, "combine") is not None:
            made = self.written_for(node, cls, operands, types, attributes, scope)
            for name, result in zip(names, made.results, strict=True):
                made.name = result.name = name
            return made
        made = cls(operands, types, attributes, blocks, names, location=place)
        self._check_init(node, made)
        return made

    def _unknown_operation(self, node: Node, opcode: Token, scope: Scope) -> ParseError:
        operands, results, types = (child(node, rule) for rule in ("operands", "results", "types"))
        written = [n for n in operands.children if _is_positional(n)] if operands is not None else []
        given = [self.source.location(n).span for n in written]
        value = scope.value(given[0][1:]) if given else None
        dtype = dtype_of(value.type).name if value is not None else ""
        names = tokens(results) if results is not None else ["%y"]
        shown = [self.source.location(n).span for n in nodes(types)] if types is not None else ["TYPE"]
        return self.source.error(
            opcode,
            f"unknown operation `{opcode}`",
            required="an operation that `tcpx ops` lists",
            found=f"`{opcode}`",
            fix=(_left_out(opcode) if node.children == [opcode] else None)
            or advice(opcode, Statement(tuple(given), str(names[0]), shown[0], dtype, self._said(node))),
        )

    def _said(self, node: Node) -> Mapping[str, str]:
        """The attributes of an operation that is not known, by the names that it gives them, as written."""
        entries = children(clause, "attribute") if (clause := child(node, "attributes")) is not None else ()
        return {str(tokens(entry)[0]): self.source.location(nodes(entry)[0]).span for entry in entries}

    def _check_attributes(self, node: Node, cls: type[Operation]) -> None:
        given, names = child(node, "attributes"), cls.signature.attribute_names
        if given is None or names is None:
            return
        for entry in children(given, "attribute"):
            key = tokens(entry)[0]
            if key not in (*names, *cls.signature.common_attributes):
                other = operation_with(key, cls)
                raise self.source.error(
                    key if other is None else tokens(node)[0],
                    f"{cls.opcode} has no attribute `{key}`",
                    required=" or ".join(f"`{name}`" for name in names) or "no attributes",
                    found=f"`{key}`",
                    fix=f"write {other}"
                    if other is not None
                    else attribute_fix(key, names, self.source.location(nodes(entry)[0]).span)
                    or suggestion(key, names),
                )

    def _check_callee(self, node: Node, cls: type[Operation]) -> None:
        if CALLEE not in (cls.signature.attribute_names or ()):
            raise self.source.error(
                node, f"{cls.opcode} calls no function", required="operands", found=str(tokens(node)[0])
            )

    def _operands(
        self, node: Node | None, cls: type[Operation], scope: Scope
    ) -> tuple[list[OperandLike], tuple[str, ...]]:
        """The operands, and the names of those among them that the class knows by name, in the order it has them."""
        found: list[OperandLike] = []
        named: dict[str, Value] = {}
        for entry in node.children if node is not None else ():
            if named and (isinstance(entry, Token) or entry.data != "named_operand"):
                required = "operands without a name before those with one"
                raise self.source.error(entry, f"an operand stands behind `{next(iter(named))}`", required=required)
            if isinstance(entry, Token):
                found.append(self._use(entry, scope))
                continue
            if entry.data == "literal":
                found.append(self.literal(entry, scope))
                continue
            if entry.data == "repeated":
                found.append(self._repeated(entry, scope))
                continue
            key, *values = tokens(entry)
            if key in cls.signature.named_operands and key not in named and len(values) == 1:
                named[str(key)] = self._use(values[0], scope)
                continue
            if (
                not cls.signature.optional_operand
                or key != cls.signature.optional_operand
                or entry is not _required(node).children[-1]
            ):
                known = ", ".join(f"`{name} = ...`" for name in cls.signature.named_operands)
                raise self.source.error(
                    entry,
                    f"{cls.opcode} has no operand called `{key}` here",
                    required=f"`{cls.signature.optional_operand} = ...` as the last operand"
                    if cls.signature.optional_operand
                    else f"{known}, each once"
                    if known
                    else "operands without names",
                    found=f"`{key}`",
                    fix=suggestion(key, cls.signature.named_operands) if key not in named else None,
                )
            found += [self._use(value, scope) for value in values]
        given = tuple(name for name in cls.signature.named_operands if name in named)
        return [*found, *(named[name] for name in given)], given

    def _repeated(self, node: Node, scope: Scope) -> Repeated:
        """The broadcast of a value, written as an operand."""
        word, source = tokens(node)
        if word not in ("broadcast", "expand"):
            raise self.source.error(
                node,
                f"`{word}` is written in a statement of its own",
                required="`broadcast(%x, [1])`, a number or a value as an operand",
                found=f"`{word}`",
                fix=Direction(f"write `%c = tcp.{word}({source}) : TYPE` before it, and %c in its place"),
            )
        dims = tuple(self.integer(n, scope, "a dim of a broadcast") for n in nodes(nodes(node)[0]))
        return Repeated(self._use(source, scope), dims, expands=word == "expand")

    def _check_init(self, node: Node, op: Operation) -> None:
        """The optional operand is always called by its name, so that it cannot be taken for another."""
        operands = child(node, "operands")
        if not op.signature.optional_operand or operands is None:
            return
        named = child(operands, "named_operand") is not None
        maps = op.attributes.get("maps")
        if isinstance(maps, tuple) and op.init is not None and not named:
            self._check_maps(operands, op, len(maps))
        if named != (op.init is not None):
            roles = ", ".join(f"`{role}`" for role in op.operand_roles)
            by_name = f"`{op.signature.optional_operand} = ...` if any"
            raise self.source.error(
                operands,
                f"{op.opcode} takes its operand `{op.signature.optional_operand}` last and by name",
                required=f"{roles}, then {by_name}" if roles else by_name,
                found=f"{len(op.operands)} operand(s), {'one' if named else 'none'} by name",
            )

    def _check_maps(self, operands: Node, op: Operation, count: int) -> None:
        """Operands without a map are initial values only if something combines them, and they have the types of the
        results."""
        combines = "combiner" in op.attributes or len(op.regions) > 1
        if combines and [value.type for value in op.inits] == [result.type for result in op.results]:
            return
        wanted = len(op.operands) + len(op.results)
        raise self.source.error(
            operands,
            f"{op.opcode} has a map for each operand and each result",
            required=f"{wanted} maps: {len(op.operands)} of operands, {len(op.results)} of results",
            found=f"{count} map(s)",
            fix=Direction("add the map of each operand that has none, before those of the results"),
        )

    def _region(self, node: Node, scope: Scope) -> Block:
        inner = Scope(scope)
        head = child(node, "block_arguments")
        arguments = child(head, "arguments") if head is not None else None
        for entry in nodes(arguments) if arguments is not None else ():
            marks = (child(entry, rule) for rule in ("strided", "inout", "range", "number"))
            mark = next((found for found in marks if found is not None), None)
            if mark is not None:
                word = "in" if mark.data == "range" else str(mark.data)
                raise self.source.error(
                    mark,
                    f"only what a caller passes is `{word}`"
                    if word != "in"
                    else "only what a caller passes is checked",
                    required=f"`{word}` with arguments of a function",
                    found=f"`{word}` with an argument of a region",
                )
        block = Block(self._arguments(arguments, scope))
        self._define_arguments(arguments, block, inner)
        self._statements(node, block, inner)
        return block

    def _loop(self, node: Node, scope: Scope) -> Operation:
        opcode = tokens(_required(child(node, "loop_opcode") or child(node, "while_opcode")))[0]
        var = self._loop_variable(node, scope)
        destinations = child(node, "destinations")
        pairs = [tokens(d) for d in nodes(destinations)] if destinations is not None else []
        inits = [self._use(init, scope) for _, init in pairs]
        body = Block([(dest[1:], v.type) for (dest, _), v in zip(pairs, inits, strict=True)])
        inner = Scope(scope)
        inner.variables[var.name] = var
        for (dest, _), value in zip(pairs, body.args, strict=True):
            self._define(dest, value, inner)
        self._statements(_required(child(node, "body")), body, inner)
        attributes = {"var": var, **self.attributes(child(node, "attributes"), scope)}
        cls = operation_class(opcode) or Loop
        types = self._result_types(node, scope)
        where = self.source.location(node)
        return cls(inits, types, attributes, [body], _result_names(node), var.name, where)

    def _loop_variable(self, node: Node, scope: Scope) -> Var:
        """The variable of a loop, with its bounds."""
        name = next(iter(tokens(node)), None)
        if name is None:
            return uncounted(next(iter(_result_names(node)), "loop"))
        step = child(node, "loop_step")
        bounds = [n for n in nodes(node) if n.data not in _LOOP_CLAUSES]
        lower, upper = (self.dim(n, scope) for n in bounds)
        size = self.dim(nodes(step)[0], scope) if step is not None else 1
        if isinstance(size, int) and size < 1:
            raise self.source.error(
                step if step is not None else node,
                "the step of a loop is positive",
                required="1 or more",
                found=str(size),
                fix=counting_up(name, lower, upper, -size) if size < 0 else None,
            )
        if scope.variable(name[1:]) is not None:
            raise self.source.error(name, f"a loop around this one is also called {name}", required="a free name")
        return Var(name[1:], lower, upper, size)

    def _conditional(self, node: Node, scope: Scope) -> Operation:
        truth, condition = child(node, "truth"), child(node, "condition")
        value = self._use(tokens(truth)[0], scope) if truth is not None else None
        if condition is not None:
            self.check_compares_sizes(condition, scope)
        predicate = self.condition(condition, scope) if condition is not None else None
        branches: list[Block] = []
        otherwise = child(node, "else_body")
        for body in (child(node, "body"), nodes(otherwise)[0] if otherwise is not None else None):
            block = Block()
            if body is not None:
                self._statements(body, block, Scope(scope))
            if block.terminator is None:
                block.append(Yield(location=self.source.location(node)))
            branches.append(block)
        attributes = self.attributes(child(node, "attributes"), scope)
        types, names, where = self._result_types(node, scope), _result_names(node), self.source.location(node)
        if value is not None:
            return IfValue([value], types, attributes, branches, names, location=where)
        given = {"predicate": predicate} if predicate is not None else {}
        return If([], types, {**given, **attributes}, branches, names, location=where)

    # -- names and types -----------------------------------------------------------------------------------------

    def _result_types(self, node: Node, scope: Scope) -> Sequence[Type]:
        clause, names = child(node, "types"), _result_names(node)
        types = [self.type(n, scope) for n in nodes(clause)] if clause is not None else []
        if len(types) != len(names):
            raise self.source.error(
                node,
                "every result has a type and every type a result",
                required=f"{counted(len(names), 'type')} after `:`",
                found=counted(len(types), "type"),
                fix=Direction("end the operation with `: TYPE`, the type of its result") if not types else None,
            )
        return types

    def extent_left(self, others: Dim) -> Dim | None:
        if self._read is None or others == 0:
            return None
        whole = product(shape_of(self._read.type))
        found = floordiv(whole, others)
        return found if is_equal(found * others, whole) is True else None

    def _use(self, token: Token, scope: Scope) -> Value:
        name = token[1:]
        value = scope.value(name)
        if value is None:
            is_variable, defined = scope.variable(name) is not None, self.later_definition(token)
            raise self.source.error(
                token,
                f"undefined value {token}",
                required="a value defined before, in this block or one around it",
                found=f"the loop variable {token}" if is_variable else str(token),
                fix=_VALUE_OF_LOOP
                if is_variable
                else Direction(f"it is defined in line {defined}, after its use: write that statement before this one")
                if defined is not None
                else suggestion(name, scope.value_names(), "%"),
            )
        return value

    def _define(self, token: Token, value: Value, scope: Scope) -> None:
        if scope.value(value.name) is not None:
            raise self.source.error(
                token,
                f"the value {token} is defined twice",
                required="a name that is free here",
                found=str(token),
                fix=Direction(f"values do not change: write another name, such as {token}.1, also where it is used"),
            )
        scope.values[value.name] = value


@frozen
class _Header:
    """What a function declares to return, and where."""

    func: FuncOp
    place: Location
    declared: list[Type]


_VALUE_OF_LOOP: Final = Direction(
    "a loop variable is a size; its numbers are values as %at = tcp.iota {dim = 0} : tensor<[N]xsi64> before the loop, "
    "read in it by gml_st.materialize(%at) tile [%i] [1]"
)
_LOOP_CLAUSES = frozenset(
    {"results", "loop_opcode", "while_opcode", "loop_step", "destinations", "attributes", "body", "types", "op_name"}
)


def _left_out(word: str) -> str | None:
    """The fix for a word alone that is like no operation that could stand so."""
    said = advice(word) or ""
    near = operation_class(said.rstrip("?").rpartition(" ")[2])
    may_stand = near is None or (near.opcode.startswith("tcp.") and not near.signature.operand_names)
    return None if may_stand or "." in word or isinstance(said, Direction) else f"remove `{word}`"


def _is_positional(entry: Node | Token) -> bool:
    return isinstance(entry, Token) or entry.data != "named_operand"


def _result_names(node: Node) -> list[str]:
    results = child(node, "results")
    return [t[1:] for t in tokens(results)] if results is not None else []


def _required(node: Node | None) -> Node:
    if node is None:
        raise TypeError("the grammar promises this clause")
    return node
