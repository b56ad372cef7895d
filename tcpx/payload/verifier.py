"""The rules of the IR that no single operation can check: structure, dominance, scopes, use lists, names."""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Final

from tcpx.payload.attribute_sizes import dims_of
from tcpx.payload.constants import Constants
from tcpx.payload.contraction import check_contraction
from tcpx.payload.diagnostics import Diagnostic, Direction, LimitError, VerifyError
from tcpx.payload.disjointness import check_disjoint_yields
from tcpx.payload.ir import ROW, Block, FuncOp, Module, Operation, Value, defined_by, parent_op
from tcpx.payload.ops.generic import Return
from tcpx.payload.ops.gml_st import Loop, StYield
from tcpx.payload.results_to_write import results_to_write
from tcpx.payload.sizes import Dim, Var, to_text
from tcpx.payload.sizes.excess import Excess, excess, excess_of_count, excess_of_memory, excess_of_width
from tcpx.payload.state import check_given_up, check_numbers, check_reads, check_result_names, check_states
from tcpx.payload.strided import check_strided
from tcpx.payload.text.scope import DIM_ATTRIBUTES, RESERVED
from tcpx.payload.traits.signature import given_operands
from tcpx.payload.types import BufferType, TensorType, Type, dtype_of, shape_of
from tcpx.payload.uses import Use
from tcpx.payload.value_names import VALUE_NAME
from tcpx.payload.value_ranges import check_ranges
from tcpx.plurals import counted

_SYMBOL_NAME = re.compile(r"[A-Za-z_]\w*")
_WITHOUT_DIMS: Final = (str, int, float)
"""Attributes of these have no sizes in them."""
_IN_MEMORY: Final = (TensorType, BufferType)


def verify_module(module: Module) -> None:
    """Check everything: each operation by itself, and all rules of this file. Raises VerifyError at the first."""
    checker = _Checker()
    for name, func in module.funcs.items():
        if name != func.name:
            raise func.error(
                "a function stands in the module under its own name", required=f"@{func.name}", found=f"@{name}"
            )
        checker.check_symbols(func)
        check_strided(func)
        check_contraction(func)
        check_ranges(func)
        check_states(func)
        check_numbers(func)
        check_result_names(func)
        checker.check_names(func.body, set())
        for op in func.walk():
            checker.check_structure(op)
            checker.check(op)
            for value in defined_by(op):
                checker.check_uses(value, value.uses)
            _check_constant(op, module.constants)
            check_disjoint_yields(op)
    module.reached(*module.funcs.values())
    for func in module.funcs.values():
        func.newly_used.clear()


def verify_ops(ops: Iterable[Operation], left: Iterable[Operation] = ()) -> int:
    """Check these operations, their users and the operations around them, and the uses that are new.

    `left`: operations that may have gone out of the module; nothing may list them as users any more. What only a look
    at the whole function shows (names used twice) is left to `verify_module`. Returns the number of operations and
    uses looked at.
    """
    checker = _Checker()
    for op in left:
        if not checker.is_attached(op):
            _check_left(op)
    touched = {op: None for op in ops if checker.is_attached(op)}
    around: dict[Operation, None] = {}
    for op in touched:
        around[op] = None
        around.update(dict.fromkeys(user for result in op.results for user in result.users))
        around.update(dict.fromkeys(op.ancestors()))
    loops: set[Operation] = set()
    for op in around:
        if isinstance(op, FuncOp):
            for value in op.newly_used:
                checker.check_uses(value, value.uses.unverified)
            op.newly_used.clear()
        if op in touched or not isinstance(op, FuncOp):
            checker.check_new(op)
        else:
            checker.check_ends(op)
        if op in touched:
            checker.check_place(op)
            written = op.loop if isinstance(op, StYield) else op
            if written is not None:
                loops.add(written)
    for loop in (op for op in around if op in loops):
        checker.looked_at += check_disjoint_yields(loop)
    return checker.looked_at


class _Checker:
    """Checks operations, and counts them and the uses it looks at."""

    def __init__(self) -> None:
        self.looked_at = 0
        self._attached: dict[Block, bool] = {}
        self._standing: set[Operation] = set()
        self._names: dict[Block | Operation, frozenset[str]] = {}
        self._states: bool | None = None

    def check(self, op: Operation) -> None:
        """The rules for one operation, its operands and the ends of its regions; not for those inside it."""
        self.looked_at += 1 + len(op.operands)
        self._check_counts(op)
        op.check_attributes()
        for index, value in enumerate(op.operands):
            if not self.is_visible(value, op):
                raise op.error(
                    f"operand {index}, %{value.name}, is not defined here",
                    required="a value defined before, in this block or one around it",
                    found=_definition(value),
                )
            if (op, index) not in value.uses:
                raise op.error(
                    f"operand {index} is missing in the uses of %{value.name}",
                    required="each operand among the uses of its value",
                    found=f"{counted(len(value.uses), 'use')}, none of them operand {index} here",
                )
        self._check_sizes(op)
        self.check_ends(op)
        if isinstance(op, StYield):
            _check_yield(op)
        if ROW in op.attributes:
            _check_row(op)
        op.verify()
        if self._has_states(op):
            check_given_up(op)

    def _has_states(self, op: Operation) -> bool:
        """Whether a function of the module has arguments that are state."""
        if self._states is None:
            module = op.func.module if op.func is not None else None
            self._states = module is not None and any(func.states for func in module.funcs.values())
        return self._states

    def check_new(self, op: Operation) -> None:
        """The rules for one operation, and the uses of what it uses and defines that are new."""
        self.check(op)
        for value in (*op.operands, *defined_by(op)):
            self.check_uses(value, value.uses.unverified)

    def check_uses(self, value: Value, uses: Iterable[Use]) -> None:
        """These uses of a value are true, and none is listed twice."""
        for user, index in uses:
            self.looked_at += 1
            if (user, index) in value.uses and not self._is_use(value, user, index):
                raise user.error(
                    f"%{value.name} lists a use that is none",
                    required="uses that are operands",
                    found=f"operand {index} of {user.opcode} %{user.name}",
                )
        if value.uses.has_repetitions:
            raise VerifyError(
                Diagnostic(f"%{value.name} lists a use twice", required="each use once", found=_definition(value))
            )
        value.uses.unverified.clear()

    def _is_use(self, value: Value, user: Operation, index: int) -> bool:
        return index < len(user.operands) and user.operands[index] is value and self.is_attached(user)

    def check_structure(self, op: Operation) -> None:
        """Every operation in the regions knows its place, and only the last one is a terminator."""
        for block in op.regions:
            if any(inner.parent is not block for inner in block.ops):
                raise op.error(
                    "a region does not know where it stands",
                    required="a region that belongs to its operation",
                    found="a region of another operation, or of none",
                )
            if any(before.order >= after.order for before, after in pairwise(block.ops)):
                raise op.error(
                    "the order numbers of a region do not rise",
                    required="rising order numbers",
                    found=", ".join(str(inner.order) for inner in block.ops),
                )
            for inner in block.ops[:-1]:
                if inner.is_terminator:
                    raise _early_end(inner)

    def check_place(self, op: Operation) -> None:
        """An operation behind which others stand is no terminator, nor is the one before it."""
        block = op.parent
        if block is None:
            return
        if self._has_states(op):
            check_reads(op)
        index = block.index(op)
        for inner in block.ops[max(0, index - 1) : index + 1]:
            if inner.is_terminator and inner is not block.ops[-1]:
                raise _early_end(inner)

    def check_symbols(self, func: FuncOp) -> None:
        """The symbols of a function have names of their own."""
        names = [s.name for s in func.symbols]
        for name in names:
            if _SYMBOL_NAME.fullmatch(name) is None or name in RESERVED or names.count(name) > 1:
                raise func.error(
                    "the symbols of a function have different, free names",
                    required="different names that are free",
                    found=f"the symbol `{name}`",
                )

    def check_names(self, block: Block, visible: set[str]) -> None:
        """Every value has a name that no other value visible at the same place has."""
        here: list[str] = []

        def define(value: Value, op: Operation | None) -> None:
            if VALUE_NAME.fullmatch(value.name) is None or value.name in visible:
                message = f"the name %{value.name} is taken" if value.name in visible else "a value has no proper name"
                diagnostic = Diagnostic(
                    message,
                    payload=op.location if op is not None else None,
                    required="a letter, then letters, digits, `_ . / ~`; each name once where it is visible",
                    found=repr(value),
                )
                raise VerifyError(diagnostic)
            visible.add(value.name)
            here.append(value.name)

        for arg in block.args:
            define(arg, block.parent)
        for op in block.ops:
            for inner in op.regions:
                self.check_names(inner, visible)
            for result in op.results:
                define(result, op)
        visible.difference_update(here)

    def is_attached(self, op: Operation) -> bool:
        """Whether an operation is part of a function."""
        self.looked_at += 1
        block = op.parent
        if block is None:
            return isinstance(op, FuncOp)
        if block not in self._attached:
            self._attached[block] = block.parent is not None and self.is_attached(block.parent)
        return self._attached[block] and self._stands(op)

    def _stands(self, op: Operation) -> bool:
        """Whether an operation stands in the block that it knows as its own."""
        if op not in self._standing:
            if op.parent is None or not op.parent.holds(op):
                return False
            self._standing.add(op)
        return True

    def is_visible(self, value: Value, op: Operation) -> bool:
        """Whether a value is defined before an operation, in its block or one around it."""
        made = value.owner
        block = made if isinstance(made, Block) else made.parent
        at: Operation | None = op
        while at is not None and at.parent is not block:
            at = parent_op(at)
        if at is None or block is None:
            return False
        if isinstance(made, Block):
            return value in made.args
        return value in made.results and self._stands(made) and self._stands(at) and made.order < at.order

    def check_ends(self, op: Operation) -> None:
        """A function returns, a loop body has no terminator, other regions yield."""
        for block in op.regions:
            self.looked_at += 1
            end = block.terminator
            returns = isinstance(end, Return)
            if isinstance(op, Loop):
                if end is not None:
                    raise end.error(
                        "the body of a loop has no terminator",
                        required="gml_st.yield for what is written",
                        found="tcp.yield at its end",
                    )
            elif isinstance(op, FuncOp):
                if not returns:
                    raise op.error(
                        "a function ends in a tcp.return",
                        required="tcp.return as the last operation",
                        found=end.opcode if end else "no terminator",
                        fix=_return_of(block),
                    )
            elif end is None or returns:
                raise op.error(
                    "the region ends in a tcp.yield",
                    required="tcp.yield as the last operation",
                    found=end.opcode if end else "no terminator",
                )

    def _check_counts(self, op: Operation) -> None:
        wanted = len(op.signature.operand_names) + len(given_operands(op))
        most = wanted + (len(op.results) if op.signature.optional_operand else 0)
        if op.signature.variadic and op.inits and len(op.inits) != len(op.results):
            raise op.error(
                f"an operation has one `{op.signature.optional_operand}` for each result, or none",
                required=counted(len(op.results), f"`{op.signature.optional_operand}`"),
                found=f"{len(op.inits)}: {', '.join(f'%{v.name}' for v in op.inits)}",
            )
        if len(op.operands) < wanted or (len(op.operands) > most and not op.signature.variadic):
            names = [
                *op.signature.operand_names,
                *given_operands(op),
                *([f"{op.signature.optional_operand} = ..."] if most > wanted else []),
            ]
            more = (
                zip(op.signature.named_operands, op.operands[wanted:], strict=False) if not given_operands(op) else ()
            )
            named = ", ".join(f"{name} = %{value.name}" for name, value in more)
            raise op.error(
                "the operation has the wrong number of operands",
                required=", ".join(names) or "no operands",
                found=f"{counted(len(op.operands), 'operand')}: {', '.join(f'%{v.name}' for v in op.operands)}".strip(
                    ": "
                ),
                fix=Direction(f"name what may be left out: `{named}`") if named else None,
            )
        if op.signature.result_count is not None and len(op.results) != op.signature.result_count:
            raise op.error(
                "the operation has the wrong number of results",
                required=counted(op.signature.result_count, "result"),
                found=counted(len(op.results), "result"),
                fix=results_to_write(op),
            )
        if op.signature.region_count is not None and len(op.regions) != op.signature.region_count:
            raise op.error(
                "the operation has the wrong number of regions",
                required=counted(op.signature.region_count, "region"),
                found=counted(len(op.regions), "region"),
            )
        for block in op.regions:
            if block.parent is not op:
                raise op.error(
                    "a region does not know where it stands",
                    required="a region that belongs to its operation",
                    found="a region of another operation, or of none",
                )

    def _known_names(self, op: Operation) -> frozenset[str]:
        """The symbols of the function an operation is in, and the variables, with their `%`, of loops around it."""
        place = op.parent or op
        known = self._names.get(place)
        if known is None:
            around = parent_op(op)
            if isinstance(op, FuncOp):
                known = frozenset(s.name for s in op.symbols)
            elif around is None:
                raise op.error("the operation is in no function", required="an operation of a function")
            else:
                var = around.attributes.get("var")
                known = self._known_names(around) | ({var.text} if isinstance(var, Var) else frozenset[str]())
            self._names[place] = known
        return known

    def _check_sizes(self, op: Operation) -> None:
        """Symbols are those of the function, loop variables those of loops around the operation."""
        outer = self._known_names(op)
        outside: list[Dim] = []
        for key, attribute in op.attributes.items():
            if not isinstance(attribute, _WITHOUT_DIMS) and key not in DIM_ATTRIBUTES:
                outside += dims_of(attribute)
        _check_widths(op, outside)
        for result in op.results:
            outside += _variable_dims(result.type)
        inside = [d for block in op.regions for arg in block.args for d in _variable_dims(arg.type)]
        own = op.attributes.get("var")
        if isinstance(own, Var) and own.text in outer:
            raise op.error(
                f"a loop around this one is also called %{own.name}",
                required="a free name",
                found="two loops of one name",
            )
        inner = {*outer, own.text} if isinstance(own, Var) else outer
        for dims, known in ((outside, outer), (inside, inner)):
            for dim in dims:
                if isinstance(dim, int) or dim.names <= known:
                    continue
                name = next((text for text in sorted(dim.names - known) if not _is_bound(op, text)), None)
                if name is not None:
                    of_loop = name.startswith("%")
                    shown = ", ".join(sorted(n.removeprefix("%") for n in known if n.startswith("%") == of_loop))
                    kind = "loop variable" if of_loop else "symbol"
                    raise op.error(
                        f"the {kind} {name} is not known here",
                        required=f"one of {shown}" if shown else f"no {kind}: there is none here",
                        found=to_text(dim),
                    )


def _is_bound(op: Operation, name: str) -> bool:
    """Whether an operation before this one, in its block or one around, binds a variable."""
    for each in (op, *op.ancestors()):
        before = each.parent.ops[: each.parent.index(each)] if each.parent is not None else ()
        if any(isinstance(var := o.attributes.get("var"), Var) and not o.regions and var.text == name for o in before):
            return True
    return False


def check_lengths(module: Module) -> None:
    """No size of a payload that was just built is too long to work with. Those that steps make of them may be longer.
    Raises LimitError."""
    for op in module.walk():
        attributes = (
            a for key, a in op.attributes.items() if not isinstance(a, _WITHOUT_DIMS) and key not in DIM_ATTRIBUTES
        )
        dims = [
            *(d for a in attributes for d in dims_of(a)),
            *(d for value in defined_by(op) for d in _type_dims(value.type)),
        ]
        _refuse(op, next(filter(None, map(excess, dims)), None))


def _check_widths(op: Operation, dims: Iterable[Dim]) -> None:
    """Sizes are 64-bit integers in C, and so are the bytes of a memory."""
    checks = [*map(excess_of_width, dims), *[_excess_of_type(value.type) for value in defined_by(op)]]
    _refuse(op, next(filter(None, checks), None))


def _refuse(op: Operation, found: Excess | None) -> None:
    if found is not None:
        raise LimitError(op.error(found.message, required=found.required, found=found.found).diagnostic)


@lru_cache(maxsize=4096)
def _excess_of_type(type_: Type) -> Excess | None:
    too_large = next(filter(None, map(excess_of_width, _type_dims(type_))), None)
    shape = shape_of(type_)
    return too_large or excess_of_count(shape) or excess_of_memory(shape, dtype_of(type_).bytes)


def _return_of(block: Block) -> str:
    """The statement that hands out what the last operation of a function computes."""
    results = block.ops[-1].results if block.ops else []
    return f"tcp.return({', '.join(f'%{value.name}' for value in results)})"


def _early_end(op: Operation) -> VerifyError:
    behind = len(op.parent.ops) - 1 - op.parent.index(op) if op.parent is not None else 0
    return op.error(
        "only the last operation of a region ends it",
        required="the last place in the region",
        found=f"{counted(behind, 'operation')} behind it",
    )


def _check_left(op: Operation) -> None:
    """An operation that is in no function is no user of anything."""
    for index, value in enumerate(op.operands):
        if (op, index) in value.uses:
            raise op.error(
                f"%{value.name} lists a use that is none",
                required="uses that are operands",
                found=f"operand {index} of {op.opcode} %{op.name}",
            )


def _check_row(op: Operation) -> None:
    """An instruction works on what registers and memory hold."""
    value = next((v for v in (*op.operands, *op.results) if isinstance(v.type, TensorType)), None)
    if value is not None:
        raise op.error(
            "the attribute `row` names an instruction, and no instruction is of tensors",
            required="scalars, vectors and buffers alone",
            found=f"%{value.name}: {value.type}",
            fix=Direction("leave the attribute `row` out: `select_instructions` sets it"),
        )


def _check_yield(op: StYield) -> None:
    """A yield writes to the destination of the innermost loop around it."""
    dest = op.operands[1]
    loop = op.loop
    if loop is None or all(dest is not d for d in loop.destinations):
        raise op.error(
            f"%{dest.name} is no destination of the innermost loop",
            required=", ".join(f"%{d.name}" for d in loop.destinations) or "a loop with destinations"
            if loop is not None
            else "a loop around it",
            found=_definition(dest),
        )


def _check_constant(op: Operation, constants: Constants) -> None:
    """A constant that is referred to by name is stored and fits its type."""
    name = op.attributes.get("constant")
    if not isinstance(name, str):
        return
    header = constants.header(name)
    if header is None:
        raise op.error(
            f'there is no constant "{name}"',
            required="a stored array",
            found=f"stored: {', '.join(constants) or 'none'}",
        )
    type_ = op.results[0].type
    if header.dtype != dtype_of(type_).numpy or header.shape != shape_of(type_):
        raise op.error(
            f'the constant "{name}" does not fit its type',
            required=str(type_),
            found=str(header),
        )


def _definition(value: Value) -> str:
    """Where a value comes from, in words."""
    if isinstance(value.owner, Operation):
        place = f" at {value.owner.location}" if value.owner.location is not None else ""
        return f"{value!r}, a result of {value.owner.opcode}{place}"
    parent = value.owner.parent
    return f"{value!r}, an argument of {parent.opcode if parent is not None else 'a detached block'}"


def _type_dims(type_: Type) -> tuple[Dim, ...]:
    return (*type_.shape, *type_.strides) if isinstance(type_, BufferType) else shape_of(type_)


def _variable_dims(type_: Type) -> tuple[Dim, ...]:
    """The sizes in a type that may be expressions: those of vectors are numbers."""
    return _type_dims(type_) if isinstance(type_, _IN_MEMORY) else ()
