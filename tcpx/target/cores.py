"""The cores of processors: how many instructions start in a cycle, on which ports, and after how long they are done.

    name, title, width      `width` is how many instructions enter the core in a cycle
    forward: 6              cycles from a store until a load has its value
    l2: 48                  bytes a cycle from the second cache
    line: 12                cycles in which a line comes from L3 that no prefetch brings, beside others on their way
    set: 24                 cycles from a line that comes into a set of the first cache to the next one in this set
    ways: 8                 lines in a set of the first cache
    window: 128             vector instructions that wait for operands at once
    crowding: 3             how little the second busiest part of the core delays a loop: the exponent of a mean
    waiting: 4.5            the same for a chain of results beside the busiest part
    spill: 0.75             cycles by which a vector that is stored and loaded delays an iteration
    hidden_spills: 9        so many vectors that are stored and loaded do not delay it
    classes: {fma: {all: "4: p01", 512: "4: p05"}, ..}

The classes are those of `ports/instructions.yaml`; `all` stands for the widths, in bits, that are not named. A cost is
a latency in cycles, and what it takes: `2 p01` is two operations, each on port 0 or 1, `p1*5` one that keeps port 1 for
five cycles. What is behind `+` enters the core apart, what is behind `&` together with what is before it.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from tcpx.installed import TABLES
from tcpx.records import frozen
from tcpx.target.errors import unknown_name
from tcpx.target.table import Node, read_table

PORTS: Final = TABLES / "ports"
USUAL: Final = "any"
"""The core of a table that names none."""
_INSTRUCTIONS: Final = "instructions"
_NUMBERS: Final = ("width", "forward", "l2", "line", "set", "ways", "window", "hidden_spills")
_RATES: Final = ("crowding", "waiting", "spill")
_KEYS: Final = ("name", "title", *_NUMBERS, *_RATES, "classes")
_WIDTHS: Final = (64, 128, 256, 512)
_TERM: Final = re.compile(r"(?:(\d+) )?([a-z]+(?:_a)?)([0-9A-F]*)(?:\*(\d+(?:\.\d+)?))?")


@frozen
class Use:
    """Operations of an instruction, each of which keeps one of the ports for so many cycles."""

    ports: frozenset[str]
    cycles: float


@frozen
class Cost:
    """What an instruction takes: cycles until its result is there, how many places it has where instructions enter the
    core, and what it does on ports."""

    latency: float
    places: int
    uses: tuple[Use, ...]


@frozen
class Core:
    """What a file says of a core."""

    name: str
    title: str
    width: int
    forward: int
    l2: int
    line: int
    set: int
    ways: int
    window: int
    hidden_spills: int
    crowding: float
    waiting: float
    spill: float
    costs: Mapping[tuple[str, int], Cost]

    @property
    def is_described(self) -> bool:
        """Whether it is that of a processor."""
        return self.name != USUAL

    @property
    def loads(self) -> frozenset[str]:
        """The ports that read the first cache."""
        return frozenset[str]().union(*(use.ports for use in self.cost("load", 256).uses))

    @property
    def stores(self) -> frozenset[str]:
        """The ports that write it."""
        return frozenset[str]().union(*(use.ports for use in self.cost("store", 256).uses))

    def cost(self, name: str, bits: int) -> Cost:
        """The cost of an instruction of a class on vectors of so many bits."""
        return self.costs.get((name, bits)) or self.costs[name, 0]


def available_cores() -> tuple[str, ...]:
    """Names of the cores that are described, and that of the usual one."""
    return tuple(sorted(path.stem for path in PORTS.glob("*.yaml") if path.stem != _INSTRUCTIONS))


def instruction_classes() -> tuple[str, ...]:
    """The classes that the file of a core gives costs."""
    return tuple(sorted({name for name, _ in core_named(USUAL).costs}))


@lru_cache(maxsize=16)
def core_named(name: str) -> Core:
    """The core of this name. Raises TargetError."""
    if name not in available_cores():
        raise unknown_name("core", name, available_cores())
    root = read_table(PORTS / f"{name}.yaml")
    fields = root.fields(_KEYS)
    missing = [key for key in _KEYS if key not in fields]
    if missing:
        raise root.fail(f"the key {missing[0]}", found="none")
    costs: dict[tuple[str, int], Cost] = {}
    for held, node in fields["classes"].fields().items():
        for bits, text in _by_width(node).items():
            costs[held, bits] = _cost(text)
    numbers = [fields[key].number() for key in _NUMBERS]
    rates = [fields[key].real() for key in _RATES]
    return Core(name, fields["title"].text(), *numbers, *rates, costs=MappingProxyType(costs))


def _by_width(node: Node) -> dict[int, Node]:
    """The costs of a class by bits; 0 stands for those that are not named, for which the widest counts if `all` is not
    there."""
    if isinstance(node.value, str):
        return {0: node}
    found: dict[int, Node] = {}
    for key, value in node.pairs():
        if key != "all" and key not in map(str, _WIDTHS):
            raise node.fail(f"a width among all, {', '.join(map(str, _WIDTHS))}", found=key)
        found[0 if key == "all" else int(key)] = value
    if not found:
        raise node.fail("a cost, or costs by width")
    found.setdefault(0, found[max(found)])
    return found


def _cost(node: Node) -> Cost:
    latency, colon, terms = node.text().partition(":")
    if not colon or not latency.strip().isdigit():
        raise node.fail("a latency and what it takes, as in `4: p01`")
    uses: list[Use] = []
    places = 0
    for part in terms.split("+"):
        for k, term in enumerate(part.split("&")):
            count, use = _term(term, node)
            uses += [use] * count
            places += count if k == 0 else 0
    return Cost(float(latency), places, tuple(uses))


def _term(text: str, node: Node) -> tuple[int, Use]:
    match = _TERM.fullmatch(text.strip())
    if match is None:
        raise node.fail("ports as in `p01`, `2 p01` or `p1*5`", found=text.strip())
    count, letter, numbers, cycles = match.groups()
    ports = frozenset(f"{letter}{int(number, 16)}" for number in numbers) if numbers else frozenset((letter,))
    return int(count or 1), Use(ports, float(cycles or 1))
