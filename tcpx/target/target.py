"""A target: register file, caches, compiler flags, C types and instruction rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock

from tcpx.plurals import counted
from tcpx.processor import hidden_note, missing_flags
from tcpx.records import brief
from tcpx.target.calibration import USUAL_PAGE, digest_of
from tcpx.target.cores import USUAL
from tcpx.target.errors import TargetError, unknown_name
from tcpx.target.kernels import KernelRow
from tcpx.target.recipe_costs import Costs
from tcpx.target.rows import DTYPE_BITS, KINDS, InstructionRow, LaneType
from tcpx.target.semantics import normalize

LaneTypeLike = LaneType | tuple[str, int]
_READING = RLock()


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """One target table with the features chosen for it.

    Cache sizes are bytes (l1 and l2 per core, l3 shared); `l3_rate` is the number of bytes that a core reads from L3
    in the time in which it multiplies and adds a vector of 32-bit floats; `memory_rates` are those that one core, and
    all, read from memory in the time of 64 vectors, zeros where it is not known; `page` is
    the bytes of a page of memory; `parallel_threshold` is the number of
    scalar operations below which a kernel runs on one thread. `features` are the optional extensions in use. `flags`
    are the compiler's flags, and `cpu_flags` the extensions of the CPU that its code may use; both with those of the
    features. `tolerances` maps a function of the semantics language to the largest error of its rows in units in the
    last place; functions not listed are exact (correctly rounded).
    """

    name: str
    spec: str
    """What `load_target` takes for an installed one: its name, its features where they are not the usual ones, and the
    hash of its machine where it has one's numbers."""
    vector_bits: int
    vector_registers: int
    l1: int
    l2: int
    l3: int
    l3_rate: int
    parallel_threshold: int
    flags: tuple[str, ...]
    headers: tuple[str, ...]
    features: tuple[str, ...]
    cpu_flags: tuple[str, ...]
    types: Mapping[LaneType, str]
    helpers: Mapping[str, str]
    tolerances: Mapping[str, int]
    kernels: Mapping[str, KernelRow]
    """The rows whose semantics is an operation on tensors, by name."""
    costs: Costs
    """What recipes of schedules cost, by the kind of what they compute: as measured, else as predicted."""
    read_rows: Callable[[], Iterable[InstructionRow]] = field(repr=False)
    """Called once, by the first question about instructions: checking a schedule asks none."""
    is_installed: bool = False
    """Whether the table is one of the package, so that `load_target` gives it by name and features: one of a user may
    be called alike."""
    memory_rates: tuple[int, int] = (0, 0)
    page: int = USUAL_PAGE
    core: str = USUAL
    """What `tcpx.target.cores` calls the core that runs its instructions."""
    numbers: str = field(default="", repr=False)
    """What the machine of `native` has that differs from the table, as JSON; empty for a target by name."""
    _names: dict[str, InstructionRow] = field(default_factory=dict[str, InstructionRow], init=False, repr=False)
    _kinds: dict[tuple[str, str | None], list[InstructionRow]] = field(
        default_factory=dict[tuple[str, str | None], list[InstructionRow]], init=False, repr=False
    )

    _able: dict[LaneType, frozenset[tuple[str, str | None]]] = field(
        default_factory=dict[LaneType, frozenset[tuple[str, str | None]]], init=False, repr=False
    )

    def __repr__(self) -> str:
        return brief("Target", self.title, f"with {', '.join(self.features)}" if self.features else "")

    @property
    def machine(self) -> str:
        """A hash of the numbers of the machine, where `native` has others than the table; else empty."""
        return digest_of(self.numbers)

    @property
    def title(self) -> str:
        """The name, and the machine where its numbers are in use: `x86_avx512@5f3a09c1`."""
        return f"{self.name}@{self.machine}" if self.numbers else self.name

    def __reduce__(self) -> tuple[Callable[..., Target], tuple[object, ...]]:
        """Pickled by its name and features, with the numbers of its machine. Raises TargetError for one whose table is
        a file."""
        from tcpx.target.loader import target_with  # which makes these

        if not self.is_installed:
            raise TargetError(
                "the target cannot be pickled",
                required="an installed target",
                found=f"{self.name}, whose table is a file",
                fix="load_target(path) where it is used",
            )
        return target_with, (self.name, self.features, self.numbers)

    def __deepcopy__(self, _: object) -> Target:
        return self

    @property
    def rows(self) -> tuple[InstructionRow, ...]:
        """The instructions, in the order of the table."""
        return tuple(self._by_name.values())

    @property
    def own_rows(self) -> tuple[InstructionRow, ...]:
        """The instructions that a table of a user adds; of an installed target, all."""
        return tuple(row for row in self.rows if self.is_installed or not row.is_installed)

    @property
    def _by_name(self) -> dict[str, InstructionRow]:
        with _READING:
            if not self._names:
                for row in self.read_rows():
                    self._names[row.name] = row
                    self._kinds.setdefault((row.kind, row.semantics), []).append(row)
        return self._names

    @property
    def _by_kind(self) -> dict[tuple[str, str | None], list[InstructionRow]]:
        return self._kinds if self._by_name else {}

    def lanes(self, dtype: str, elements: int | None = None) -> int:
        """How many elements of `dtype` a full vector register holds, or the narrowest part of one that holds
        `elements` of them and computes like it."""
        if dtype not in DTYPE_BITS:
            raise unknown_name("dtype", dtype, DTYPE_BITS, where=f"target {self.name}")
        full = self.vector_bits // DTYPE_BITS[dtype]
        return full if elements is None else self.narrowed((dtype,), full, elements)

    def narrowed(self, dtypes: Iterable[str], lanes: int, elements: int) -> int:
        """The fewest of `lanes` lanes, halved and halved again, that hold `elements`, and can do in each dtype what the
        whole can; shuffles and dot products, which are asked for one by one, aside."""
        while 1 < elements <= lanes // 2 and all(self._is_whole(d, lanes, lanes // 2) for d in dtypes):
            lanes //= 2
        return lanes

    def _is_whole(self, dtype: str, lanes: int, fewer: int) -> bool:
        return self._abilities(LaneType(dtype, lanes)) <= self._abilities(LaneType(dtype, fewer))

    def dot_width(self, lhs: str, rhs: str, acc: str) -> int:
        """How many neighbours of these dtypes, in either order, a row multiplies and adds to a full vector of `acc`;
        1 without such a row."""
        result = LaneType(acc, self.lanes(acc))
        for (kind, _), rows in self._by_kind.items():
            for row in rows if kind == "dot" else ():
                factors = [operand.dtype for operand in row.operands[1:]]
                if row.result == result and factors in ([lhs, rhs], [rhs, lhs]):
                    return row.operands[1].lanes // result.lanes
        return 1

    def has_type(self, dtype: str, lanes: int) -> bool:
        """Whether the target has a C type for this many lanes of `dtype`."""
        return LaneType(dtype, lanes) in self.types

    def lane_counts(self, dtype: str) -> list[int]:
        """How many lanes of `dtype` the target has C types for, 1 for the scalar."""
        return sorted(t.lanes for t in self.types if t.dtype == dtype)

    def c_type(self, dtype: str, lanes: int = 1) -> str:
        """The C type of `lanes` lanes of `dtype`; 1 is the scalar. Raises TargetError if there is none."""
        found = self.types.get(LaneType(dtype, lanes))
        if found is None:
            if dtype not in DTYPE_BITS:
                raise unknown_name("dtype", dtype, DTYPE_BITS, where=f"target {self.name}")
            known = self.lane_counts(dtype)
            raise TargetError(
                f"target {self.name} has no vector type {LaneType(dtype, lanes)}",
                required=f"{dtype} with {' or '.join(map(str, known))} lanes",
                found=counted(lanes, "lane"),
                fix=f"vectorize by {counted(self.lanes(dtype), 'lane')}, or split the vector",
            )
        return found

    def require_cpu(self) -> None:
        """Raise TargetError where this CPU cannot run code for the target."""
        error = self.cpu_error()
        if error is not None:
            raise error

    def cpu_error(self) -> TargetError | None:
        """The error where this CPU lacks an extension that code for the target may use: it would end the process."""
        missing = missing_flags(self.cpu_flags)
        if not missing:
            return None
        return TargetError(
            f"this CPU cannot run code for {self.name}",
            required=f"a CPU with {', '.join(self.cpu_flags)}",
            found=f"one without {', '.join(missing)}{hidden_note()}",
            fix="compile for the target `native`; to run it on another machine, `tcpx emit` or `Kernel.save`",
        )

    def has(self, feature: str) -> bool:
        """Whether an optional extension (`avx512_vnni`, ...) is in use."""
        return feature in self.features

    def row(self, name: str) -> InstructionRow:
        """The row of this name. Raises TargetError."""
        found = self._by_name.get(name)
        if found is None:
            raise unknown_name("instruction row", name, self._by_name, where=f"target {self.name}")
        return found

    def kernel(self, name: str) -> KernelRow:
        """The row of a micro-kernel of this name. Raises TargetError."""
        found = self.kernels.get(name)
        if found is None:
            required = ", ".join(self.kernels) or "a target with `kernels` in its table"
            raise TargetError(f"target {self.name} has no row `{name}`", required=required, found=name)
        return found

    def find(
        self,
        kind: str,
        semantics: str | None = None,
        result: LaneTypeLike | None = None,
        operands: Sequence[LaneTypeLike] | None = None,
        conditions: Collection[str] = (),
    ) -> InstructionRow | None:
        """The best row with this kind, semantics and types, or None.

        `result` or `operands` left None matches any. A row with a condition is taken only if the condition is among
        `conditions`, and then goes before those without: it is there because it is cheaper. Otherwise the first row
        of the table wins, a slow one only where there is no other. Raises TargetError on an unknown kind or semantics
        that are not in the language.
        """
        if kind not in KINDS:
            raise unknown_name("kind of row", kind, KINDS, where=f"target {self.name}")
        wanted = None if operands is None else tuple(tuple(t) for t in operands)
        fallback: InstructionRow | None = None
        for row in self._by_kind.get((kind, None if semantics is None else normalize(semantics)), ()):
            if (result is not None and row.result != result) or (wanted is not None and row.operands != wanted):
                continue
            if row.condition is None:
                fallback = row if fallback is None or (fallback.is_slow and not row.is_slow) else fallback
            elif row.condition in conditions:
                return row
        return fallback

    def _abilities(self, type_: LaneType) -> frozenset[tuple[str, str | None]]:
        known = self._able.get(type_)
        if known is None:
            known = self._able[type_] = frozenset(
                (kind, semantics)
                for (kind, semantics), rows in self._by_kind.items()
                if kind not in ("shuffle", "dot") and any(type_ in (row.result, *row.operands) for row in rows)
            )
        return known

    def shuffles(self, type_: LaneTypeLike) -> tuple[InstructionRow, ...]:
        """The rows that put lanes of two vectors of this type together to a third."""
        return tuple(row for row in self._by_kind.get(("shuffle", None), ()) if row.result == type_)

    def helper_code(self, rows: Iterable[InstructionRow | KernelRow]) -> tuple[str, ...]:
        """The C definitions that these rows need, each once, in an order that compiles."""
        needed = {name for row in rows for name in row.helpers}
        return tuple(code for name, code in self.helpers.items() if name in needed)
