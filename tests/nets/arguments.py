"""Arguments of one call: what the transform declares says which to draw, the payload which of them are plausible."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from tcpx.payload.indexing_maps import map_dim
from tcpx.payload.interfaces import Structured, Tileable
from tcpx.payload.ir import Operation, is_in, parent_op
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.sizes import Dim, upper_bound
from tcpx.payload.traits.signature import result_roles
from tcpx.payload.traits.tree import Tree
from tcpx.transform.declaration import Parameter, ParameterKind, Result, Transform
from tcpx.transform.tiling import starts_of
from tests.nets import plausible
from tests.nets.rows import row_of
from tests.nets.session import Session

TILES = (1, 2, 3, 4, 4, 5, 7, 8, 8, 16)


class Arguments:
    """Arguments for one call, drawn one after the other: each may depend on those before."""

    def __init__(
        self,
        random_: random.Random,
        session: Session,
        focus: str,
        first_class: Mapping[str, str],
        transform: type[Transform],
    ) -> None:
        self.random = random_
        self.session = session
        self.focus = focus
        self.first_class = first_class
        self.transform = transform
        self.op: Operation | None = None
        self.name = ""
        self.operand = -1
        self.loop: Loop | None = None
        self.entries = 0

    def draw(self) -> list[str] | None:
        """The arguments as they are written; None if there is nothing to draw one from."""
        written: list[str] = []
        one_of = plausible.ONE_OF.get(self.transform.name, ())
        chosen = self.random.choice(one_of) if one_of and self.random.random() < 0.95 else ""
        for parameter in self.transform.parameters:
            if chosen and parameter.name in one_of:
                if parameter.name != chosen:
                    continue
            elif not parameter.is_required and self.random.random() > self._chance_of(parameter):
                continue
            value = self._value(parameter)
            if value is None:
                return None
            if parameter.name in plausible.INEXACT.get(self.transform.name, ()):
                continue
            is_first = parameter.is_required and parameter is self.transform.parameters[0]
            written.append(value if is_first else f"{parameter.name}: {value}")
        return written

    def _chance_of(self, parameter: Parameter) -> float:
        return {ParameterKind.ENUM: 0.75, ParameterKind.BOOL: 0.2, ParameterKind.INTS: 0.1}.get(
            parameter.type.kind, 0.4
        )

    def _value(self, parameter: Parameter) -> str | None:
        kind = parameter.type.kind
        draw = self._draws().get(kind)
        if draw is None:
            raise KeyError(f"{self.transform.name}: nothing draws a parameter of kind {kind.value}")
        return draw(parameter)

    def _draws(self) -> dict[ParameterKind, Callable[[Parameter], str | None]]:
        return {
            ParameterKind.OP: self._op,
            ParameterKind.LOOP: self._loop,
            ParameterKind.OP_OR_LOOP: self._op_or_loop,
            ParameterKind.OPS: self._ops,
            ParameterKind.LOOPS: self._loops,
            ParameterKind.VALUE: self._operand,
            ParameterKind.FUNC: lambda _: "root",
            ParameterKind.DIM: lambda _: self._dim(),
            ParameterKind.DIMS: lambda _: f"[{', '.join(self._shuffled(self._dims()))}]",
            ParameterKind.DIM_SIZES: lambda _: self._dim_sizes(),
            ParameterKind.DIM_STEPS: lambda _: self._dim_sizes(repeats=True),
            ParameterKind.LAYOUT: lambda _: self._layout(),
            ParameterKind.INT: lambda p: "128" if p.name == "by" else str(self.random.choice((2, 2, 3, 4, 1))),
            ParameterKind.INTS: lambda _: (
                f"[{', '.join(str(self.random.choice((1, 2, 3))) for _ in range(self.entries))}]"
            ),
            ParameterKind.SIZE: lambda _: self._size(),
            ParameterKind.FLOAT: lambda _: "0.5",
            ParameterKind.BOOL: lambda p: "true" if p.is_required else self.random.choice(("true", "false")),
            ParameterKind.STRING: lambda _: '"seen"',
            ParameterKind.NAME: lambda p: self._row_name() if p.name in ("row", "fallback") else self._class_name(),
            ParameterKind.ENUM: lambda p: self.random.choice(p.type.choices),
            ParameterKind.DTYPE: lambda _: self.random.choice(plausible.DTYPES[self.transform.name]),
            ParameterKind.PREDICATE: lambda _: "true",
        }

    def _some(self, names: list[str]) -> str | None:
        return self.random.choice(names) if names else None

    def _shuffled(self, names: list[str]) -> list[str]:
        return self.random.sample(names, len(names))

    def _listed(self, draw: Callable[[Parameter], str | None], parameter: Parameter) -> str | None:
        items = [draw(parameter) for _ in range(self.random.choice((1, 2)))]
        return f"[{', '.join(dict.fromkeys(i for i in items if i))}]" if any(items) else None

    def _loops(self, parameter: Parameter) -> str | None:
        """Some loops; of those that are reordered, one stands in the other."""
        if self.transform.name != "reorder":
            return self._listed(self._loop, parameter)
        known = self.session.loops()
        pairs = [(b, a) for a, outer in known.items() for b, inner in known.items() if parent_op(inner) is outer]
        return f"[{', '.join(self.random.choice(pairs))}]" if pairs else None

    def _ops(self, parameter: Parameter) -> str | None:
        """Some operations; of those that are fused, one reads another."""
        if self.transform.name != "fuse_elementwise":
            return self._listed(self._op, parameter)
        known = {n: op for n, op in self.session.ops().items() if plausible.is_elementwise(op)}
        pairs = [(a, b) for a, made in known.items() for b, op in known.items() if plausible.reads(op, made)]
        return f"[{', '.join(self._shuffled([*self.random.choice(pairs)]))}]" if pairs else None

    # -- operations and loops ----------------------------------------------------------------------------------------

    def _op(self, parameter: Parameter) -> str | None:
        """A live operation of the class asked for; now and then the start of one, or the one of the step before."""
        wanted = parameter.type.op_class
        if wanted == "group":
            return self._some(list(self.session.groups()))
        if wanted == "call":
            return self._some(list(self.session.calls()))
        fits = plausible.OPS.get(self.transform.name, lambda _: True)
        ops = {n: op for n, op in self.session.ops().items() if not wanted or wanted in Tree(op).tree_classes()}
        known = {n: op for n, op in ops.items() if fits(op) or self.random.random() < 0.03}
        if not known:
            return None
        takes_loop = any(p.type.kind is ParameterKind.LOOP for p in self.transform.parameters)
        if takes_loop:
            known = self._beside_loops(known) or known
        again = self.focus in known and not takes_loop and self.random.random() < 0.5
        chosen = self.focus if again else self._some(list(known))
        if chosen is None:
            return None
        if not takes_loop:
            self.focus = chosen
        self.op, self.name = known[chosen], chosen
        if takes_loop and isinstance(self.op, Tileable) and starts_of(self.op) and self.random.random() < 0.4:
            self.op = starts_of(self.op)[0]
            return f"{chosen}.start"
        return chosen

    def _beside_loops(self, known: dict[str, Operation]) -> dict[str, Operation]:
        """Those that feed a loop or read its result, or accumulate in one."""
        loops = list(self.session.loops().values())
        return {n: op for n, op in known.items() if any(_related(op, loop) for loop in loops)}

    def _loop(self, parameter: Parameter) -> str | None:
        del parameter
        known = self.session.loops()
        if self.op is not None:
            related = {n: loop for n, loop in known.items() if _related(self.op, loop)}
            known = related if related and self.random.random() < 0.9 else known
        first = self.loop
        if first is not None:
            beside = {n: loop for n, loop in known.items() if plausible.are_siblings(first, loop)}
            known = beside if beside and self.random.random() < 0.9 else known
        fits = plausible.LOOPS.get(self.transform.name, lambda _: True)
        known = {n: loop for n, loop in known.items() if fits(loop) or self.random.random() < 0.04}
        chosen = self._some(list(known))
        self.loop = known[chosen] if chosen is not None else None
        return chosen

    def _op_or_loop(self, parameter: Parameter) -> str | None:
        draw = self.random.random()
        if self.transform.name in plausible.NOT_FUNCTIONS:
            return self._loop(parameter) if draw < 0.8 else self._op(parameter)
        if draw < 0.4:
            return "root"
        return (self._loop(parameter) if draw < 0.8 else self._op(parameter)) or "root"

    def _operand(self, parameter: Parameter) -> str | None:
        """An operand of an operation in a loop, by role; or its result."""
        del parameter
        known = {n: op for n, op in self.session.ops().items() if isinstance(op, Structured)}
        if self.transform.name in plausible.FACTORS + plausible.RESULTS:
            known = {n: op for n, op in known.items() if plausible.OPS[self.transform.name](op)}
        else:
            known = {n: op for n, op in known.items() if op.inputs and any(isinstance(a, Loop) for a in op.ancestors())}
        chosen = self._some(list(known))
        if chosen is None:
            return None
        self.op, self.name = known[chosen], chosen
        roles = list(self.op.operand_roles)[: len(self.op.inputs)]
        if not roles or self.transform.name in plausible.RESULTS or self.random.random() < 0.1:
            results = result_roles(self.op)
            return f"{chosen}.{results[0] if len(results) == 1 else self.random.choice(results)}"
        role = plausible.FACTOR if self.transform.name in plausible.FACTORS else self.random.choice(roles)
        self.operand = roles.index(role)
        return f"{chosen}.{role}"

    # -- dims and sizes ----------------------------------------------------------------------------------------------

    def _dims(self) -> list[str]:
        return [it.name for it in self.op.iterators()] if isinstance(self.op, Tileable) else []

    def _dim(self) -> str | None:
        """A dim, of the kind that the transform is for."""
        wanted = plausible.DIMS.get(self.transform.name)
        fits = [it.name for it in self.op.iterators() if it.kind is wanted] if isinstance(self.op, Tileable) else []
        return self._some(fits if fits and self.random.random() < 0.95 else self._dims())

    def _dim_sizes(self, repeats: bool = False) -> str | None:
        """A size for some dims: those that are symbolic before the others; at times one of them twice."""
        if not isinstance(self.op, Tileable) or not self._dims():
            return None
        extents = dict(zip(self._dims(), self.op.domain(), strict=True))
        if Result.OP in self.transform.results:
            extents = {d: n for d, n in extents.items() if upper_bound(n) is not None} or extents
        chosen = [d for d, n in extents.items() if self.random.random() < (0.85 if not isinstance(n, int) else 0.35)]
        chosen = self._shuffled(chosen or [self.random.choice(list(extents))])
        chosen += [self.random.choice(chosen)] if repeats and self.random.random() < 0.2 else []
        self.entries = len(chosen)
        return f"[{', '.join(f'{d}: {self._tile_size(d, extents[d])}' for d in chosen)}]"

    def _tile_size(self, dim: str, extent: Dim) -> str:
        draw = self.random.random()
        grows = Result.OP in self.transform.results
        bound = upper_bound(extent)
        if grows and bound is not None and draw < 0.85:
            return str(self.random.choice((bound, -(-bound // 4) * 4, bound + 1)))
        if draw < 0.08:
            return f"max(1, ceildiv(size({self.name}.{dim}), 2))"
        return str(self.random.choice(TILES))

    def _layout(self) -> str | None:
        op = self.op
        if not isinstance(op, Structured) or not 0 <= self.operand < len(op.maps()):
            return "[d0]"
        names = [n for n in map(map_dim, op.maps()[self.operand]) if n is not None]
        if self.random.random() < 0.3 and len(names) > 1:
            names = names[1:]
        digits = self._shuffled(names)
        at = self.random.randrange(len(digits)) if digits else 0
        draw = self.random.random()
        if digits and draw < 0.15:
            digits[at] = f"{digits[at]} pad 8"
        elif digits and draw < 0.3:
            split = digits[at]
            digits = [f"{split}/4", *(d for d in digits if d != split), f"{split}%4"]
        return f"[{', '.join(digits)}]"

    def _size(self) -> str:
        step = self.loop.var.step if self.loop is not None else 1
        lower = self.loop.var.lower if self.loop is not None else 0
        if isinstance(step, int) and isinstance(lower, int) and self.random.random() < 0.8:
            return str(lower + step * self.random.choice((1, 1, 2, 3)))
        return str(self.random.choice(TILES))

    def _row_name(self) -> str:
        """The row that does what the operation does, or another one."""
        found = row_of(self.op) if self.op is not None else None
        return found if found is not None and self.random.random() < 0.9 else "add_f32_2"

    def _class_name(self) -> str:
        """The class the operation was before it was generalized, or another of the tree."""
        before = self.first_class.get(self.name)
        if before is not None and self.random.random() < 0.8:
            return before
        return self.random.choice(("contract", "matmul", "elementwise", "reduce_sum", "transpose", "generic"))


def _related(op: Operation, loop: Loop) -> bool:
    """Whether the loop holds the operation, reads what it makes, or makes what it reads."""
    if is_in(op, loop):
        return True
    outermost = {id(a) for a in (loop, *loop.ancestors())}
    made = [v.defining_op for v in op.operands]
    if any(id(m) in outermost for m in made if m is not None):
        return True
    readers = [u for r in op.results for u in r.users]
    return any(u is loop or is_in(u, loop) for u in readers)
