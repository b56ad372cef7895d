"""What is known of a schedule before it runs holds for every run: random schedules, in all domains of the interpreter.

Each name that a run binds has a value; the abstract value of the name, at that place and use, must have it as one of
those that it stands for. Where a check finds an error, the run fails.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import tcpx
from tcpx.assignment import Assignment, ParamValue
from tcpx.interp.engine import begin_run
from tcpx.interp.foresight import Foresight
from tcpx.interp.frame import Frame
from tcpx.interp.lifting import plain_value
from tcpx.interp.payload_check import PayloadChecker
from tcpx.interp.space.foresight import SurveyForesight
from tcpx.interp.space.formula import Formula, FormulaError
from tcpx.interp.space.survey import Surveyor
from tcpx.interp.state import State
from tcpx.interp.statements import Runner
from tcpx.interp.values import UNKNOWN, RuntimeValue
from tcpx.target import load_target
from tcpx.transform.language import syntax as ast

PAYLOAD = """\
func @main(%x: tensor<24x70xf32>, %w: tensor<70x36xf32>, %b: tensor<24x36xf32>) -> tensor<24x36xf32> {
  %mm = tcp.matmul(%x, %w) : tensor<24x36xf32>
  %s = tcp.add(%mm, %b) : tensor<24x36xf32>
  %e = tcp.exp(%s) : tensor<24x36xf32>
  tcp.return(%e)
}
"""
FUNCTIONS = """\
function rounded(a: int, b: int = 4) -> int = align_up(a, max(1, b))
function capped(a: int, limit: int) -> int {
  let least = min(a, limit)
  return least if a > 3 else limit - 1
}
"""
SCHEDULES, ASSIGNMENTS = 60, 3
Place = tuple[int, int, str, str]
"""Line and column of a statement, its use, the name that it binds."""


@dataclass(slots=True)
class Writer:
    """Draws a schedule. `ints` and `lists` are the names in scope."""

    draw: random.Random
    count: int = 0
    lines: list[str] = field(default_factory=list)
    ints: list[str] = field(default_factory=list)
    depth: int = 0
    in_sequence: bool = False
    sequences: list[str] = field(default_factory=list)
    tilings: list[tuple[str, str]] = field(default_factory=lambda: [("m", "mm"), ("n", "mm"), ("d0", "s"), ("q", "mm")])
    """What is still to be tiled: each dim once, so that loops stay few."""
    loops: int = 0

    def name(self, stem: str) -> str:
        """A name that nothing else has."""
        self.count += 1
        return f"{stem}{self.count}"

    def number(self, depth: int = 0) -> str:
        """An expression of type int."""
        leaves = ["literal", "literal", "size", *(["name"] * 3 if self.ints else [])]
        inner = ["+", "-", "*", "/", "%", "min", "max", "if", "rounded", "capped", "len", "least", "negate", "loops"]
        match self.draw.choice(leaves if depth > 1 else leaves * 2 + inner):
            case "literal":
                return str(self.draw.randint(0, 9))
            case "size":
                return f"size({self.draw.choice(('mm.m', 'mm.n', 'mm.k', 's.d0'))})"
            case "name":
                return self.draw.choice(self.ints)
            case "+" | "-" | "*" as operator:
                return f"({self.number(depth + 1)} {operator} {self.number(depth + 1)})"
            case "/" | "%" as operator:
                return f"({self.number(depth + 1)} {operator} {self.draw.choice(('3', '7', self.number(depth + 1)))})"
            case "if":
                return f"({self.number(depth + 1)} if {self.condition(depth + 1)} else {self.number(depth + 1)})"
            case "len":
                return f"len([{self.number(depth + 1)}, {self.number(depth + 1)}])"
            case "least":
                return f"min([{self.number(depth + 1)}, {self.number(depth + 1)}])"
            case "negate":
                return f"-{self.number(2)}"
            case "loops":
                return "len(users(mm))"
            case function:
                return f"{function}({self.number(depth + 1)}, {self.number(depth + 1)})"

    def condition(self, depth: int = 0) -> str:
        """An expression of type bool."""
        match self.draw.choice(("compare", "compare", "and", "or", "not", "contains") if depth < 2 else ("compare",)):
            case "and" | "or" as operator:
                return f"({self.condition(depth + 1)} {operator} {self.condition(depth + 1)})"
            case "not":
                return f"(not {self.condition(depth + 1)})"
            case "contains":
                return f"contains([1, {self.number(2)}, 6], {self.number(2)})"
            case _:
                operator = self.draw.choice(("<", "<=", ">", ">=", "==", "!="))
                return f"{self.number(depth + 1)} {operator} {self.number(depth + 1)}"

    def write(self, line: str) -> None:
        self.lines.append("  " * (self.depth + 1) + line)

    def block(self, *bound: str) -> None:
        """Some statements between braces; what they bind ends there."""
        outer, self.depth = list(self.ints), self.depth + 1
        self.ints += bound
        for _ in range(self.draw.randint(1, 3)):
            self.statement()
        self.ints, self.depth = outer, self.depth - 1

    def statement(self) -> None:
        """One statement."""
        flat = ["let"] * 5 + ["knob"] * 4 + ["generalize", "require"]
        flat += ["tile"] * 3 if self.tilings and not self.loops and not self.in_sequence else []
        flat += ["call"] * 3 if self.sequences else []
        nested = ["if", "if", "if", "for", "try", "tune", "case", "return" if self.in_sequence else "each"]
        match self.draw.choice(flat if self.depth > 1 else flat + nested):
            case "let":
                name = self.name("v")
                self.write(f"let {name} = {self.number()}")
                self.ints.append(name)
            case "knob":
                name, first = self.name("k"), self.draw.randint(1, 8)
                items = self.draw.choice((f"[{first}, 2, 11]", f"[{first}, {self.number(2)}, 5]"))
                self.write(f"knob {name}: int = {first} in {items}")
                self.ints.append(name)
            case "tile":
                dim, op = self.tilings.pop(self.draw.randrange(len(self.tilings)))
                self.write(f"try {{ tile({op}, [{dim}: {self.number(2)}]) }}")
            case "generalize":
                self.write("optional generalize(mm)")
            case "require":
                self.write(f"require {self.condition()} or {self.number()} < 40")
            case "call":
                name = self.name("v")
                self.write(f"let {name} = {self.draw.choice(self.sequences)}(mm, s, {self.number(2)})")
                self.ints.append(name)
            case "return":
                self.write(f"if {self.condition()} {{ return {self.number()} }}")
            case "if":
                self.write(f"if {self.condition()} {{")
                self.block()
                if self.draw.random() < 0.6:
                    self.write("} else {")
                    self.block()
                self.write("}")
            case "for":
                name = self.name("at")
                self.write(f"for {name} in 1..{self.draw.choice(('2', '3', f'min(3, {self.number(2)})'))} {{")
                self.loops += 1
                self.block(name)
                self.loops -= 1
                self.write("}")
            case "each":
                name = self.name("x")
                self.write(f"for {name} in match any {self.draw.choice(('elementwise', 'contract'))} in root {{")
                size = self.name("v")
                self.write(f"  let {size} = size({name}.out)")
                self.loops += 1
                self.block(size)
                self.loops -= 1
                self.write("}")
            case "try":
                self.write("try {")
                self.write(f"  require {self.condition()}")
                self.block()
                self.write("}")
            case "tune":
                self.write("tune {")
                self.block()
                self.write("} or {")
                self.block()
                self.write("}")
            case _:
                self.write("case mm {")
                self.write("  matmul => {")
                self.block()
                self.write("  }")
                self.write("  else => {")
                self.block()
                self.write("  }")
                self.write("}")


def schedule_of(seed: int) -> str:
    """A random schedule: some sequences, and what calls them."""
    writer = Writer(random.Random(seed))
    texts = ["language 1\n", FUNCTIONS]
    for _ in range(writer.draw.randint(0, 2)):
        name = writer.name("part")
        writer.lines, writer.ints, writer.in_sequence = [], ["given"], True
        for _ in range(writer.draw.randint(2, 4)):
            writer.statement()
        writer.write(f"return {writer.number()}")
        head = f"sequence {name}(mm: op, s: op, given: int) -> int {{"
        texts.append("\n".join([head, *writer.lines, "}\n"]))
        writer.sequences.append(name)
    writer.lines, writer.ints, writer.in_sequence = [], [], False
    for _ in range(writer.draw.randint(4, 8)):
        writer.statement()
    head = ["schedule main(root: func) {", "  let mm = match one matmul in root", "  let s = match one add in root"]
    return "".join([*texts, "\n".join([*head, *writer.lines, "}\n"])])


def _bound_by(statement: ast.Statement) -> tuple[str, ...]:
    match statement:
        case ast.Let():
            return statement.names
        case ast.Knob():
            return (statement.name,)
        case _:
            return ()


def _places(statement: ast.Statement, frame: Frame) -> Iterator[tuple[Place, RuntimeValue | Formula]]:
    where = statement.location
    for name in _bound_by(statement):
        yield (where.line, where.column, frame.use, name), frame.over_knobs().names[name]


class Run(Runner):
    """A run that keeps what names are bound to."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # pyright: ignore[reportArgumentType]
        self.bound: list[tuple[Place, RuntimeValue]] = []

    def guarded(self, statement: ast.Statement, frame: Frame) -> tuple[RuntimeValue, ...] | None:
        returned = super().guarded(statement, frame)
        self.bound += _places(statement, frame)
        return returned


class Check(PayloadChecker):
    """A check that keeps what names are bound to: all values of a name, which is their join."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # pyright: ignore[reportArgumentType]
        self.bound = defaultdict[Place, list[RuntimeValue]](list)

    def guarded(self, statement: ast.Statement, frame: Frame) -> tuple[RuntimeValue, ...] | None:
        returned = super().guarded(statement, frame)
        for place, value in _places(statement, frame):
            self.bound[place].append(value)
        return returned


class Survey(Surveyor):
    """A survey that keeps what names are bound to, and whether that was guessed from what steps may have changed."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # pyright: ignore[reportArgumentType]
        self.bound = defaultdict[Place, list[RuntimeValue]](list)

    def guarded(self, statement: ast.Statement, frame: Frame) -> tuple[RuntimeValue, ...] | None:
        returned = super().guarded(statement, frame)
        for place, value in _places(statement, frame):
            is_guess = self.foresight.is_changed and not isinstance(value, Formula)
            self.bound[place].append(UNKNOWN if is_guess or (isinstance(value, Formula) and value.is_guess) else value)
        return returned


def stands_for(abstract: RuntimeValue, value: RuntimeValue, knobs: Mapping[str, ParamValue]) -> bool:
    """Whether a value is one of those that an abstract value stands for, with these knobs."""
    if abstract is UNKNOWN:
        return True
    if isinstance(abstract, Formula):
        try:
            return abstract.value(knobs) == plain_value(value)
        except FormulaError:
            return False
    return abstract == value


def begun(text: str, knobs: Mapping[str, ParamValue]) -> tuple[ast.Schedule, State, Frame]:
    program = tcpx.parse_schedule(text)
    return begin_run(tcpx.parse(PAYLOAD), program, load_target("generic"), 1, Assignment.of(knobs))


def run_of(text: str, knobs: Mapping[str, ParamValue]) -> tuple[Run, bool]:
    """A run with some knobs, and whether it failed; what it bound before it did."""
    called, state, frame = begun(text, knobs)
    run = Run(state)
    try:
        run.block(called.body, frame)
    except tcpx.TcpxError:
        return run, True
    return run, False


def check_of(text: str, knobs: Mapping[str, ParamValue]) -> Check:
    called, state, frame = begun(text, knobs)
    state.foresight = Foresight()
    check = Check(state, state.foresight)
    check.block(called.body, frame)
    return check


def survey_of(text: str) -> Survey:
    called, state, frame = begun(text, {})
    state.foresight = SurveyForesight()
    survey = Survey(state, state.foresight, {})
    survey.block(called.body, frame)
    return survey


def assignments(survey: Survey, draw: random.Random) -> Iterator[dict[str, ParamValue]]:
    """The defaults, and values drawn from the domains."""
    yield {}
    for _ in range(ASSIGNMENTS - 1):
        values: dict[str, ParamValue] = {}
        for variable in survey.result.variables.values():
            found = variable.items(values) if variable.is_active(values) else ()
            items = [item for item in found if not isinstance(item, tuple)]
            if items:
                values[variable.path] = draw.choice(items)
        yield values


def misses(text: str, seed: int, counts: Counter[str]) -> Iterator[str]:
    """What is known before a run, and is not so in it."""
    survey = survey_of(text)
    for chosen in assignments(survey, random.Random(seed)):
        run, failed = run_of(text, chosen)
        check = check_of(text, chosen)
        if check.found and not failed:
            yield f"{chosen}: the check finds {[d.message for d in check.found.values()]}, and the run succeeds"
        counts["failed runs"] += failed
        counts["found"] += bool(check.found)
        plain = {use.path: plain_value(use.value) for use in run.state.knobs}
        knobs = {path: value for path, value in plain.items() if isinstance(value, int | float | str)}
        for place, value in run.bound:
            for domain, bound in (("check", check.bound), ("survey", survey.bound)):
                known = bound.get(place, [])
                if domain == "survey" and not known:  # it guesses that steps change no class
                    continue
                if not any(stands_for(abstract, value, knobs) for abstract in known):
                    yield f"{chosen}: {place} is {value}, and in the {domain} one of {known}"
                is_top = any(abstract is UNKNOWN for abstract in known)
                over_knobs = any(isinstance(abstract, Formula) and abstract.knobs for abstract in known)
                counts[f"{domain}: {'top' if is_top else 'formula' if over_knobs else 'concrete'}"] += 1


def test_what_is_known_before_a_run_holds_in_it() -> None:
    counts = Counter[str]()
    for seed in range(SCHEDULES):
        text = schedule_of(seed)
        found = list(misses(text, seed, counts))
        assert not found, f"seed {seed}\n{text}\n" + "\n".join(found)
    least = {"check: concrete": 1500, "check: top": 300, "survey: formula": 700, "survey: concrete": 500, "found": 3}
    assert all(counts[key] >= number for key, number in least.items()), counts
