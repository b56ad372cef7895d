"""Random schedules as text: any construct of the grammar, laid out and commented at random. They parse; no more."""

from __future__ import annotations

import random
from collections.abc import Callable

NAMES = ["mm", "last", "root", "x", "row_block_size", "k", "n", "_a", "_", "specialized_epilogue_of_the_second_product"]
CLASSES = ["contract", "matmul", "op", "elementwise"]
BINARY = ["+", "-", "*", "**", "/", "%", "==", "!=", "<", "<=", ">", ">=", "and", "or"]
CONTINUES_BEHIND = {*BINARY, "not", "..", ",", ":", "=", "->", "=>"}
CONTINUES_BEFORE = {"else", "or", "and", "where", "."}
END = "\0"
"""Where a statement ends."""
CAN_DOCUMENT = "\1"
"""Where a `///` would document a statement."""


class RandomSchedule:
    """One text; the same seed gives the same one."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def make(self) -> str:
        items: list[str] = [CAN_DOCUMENT, "language", "1", END]
        for _ in range(self.random.randrange(1, 4)):
            items += [
                CAN_DOCUMENT,
                *self.pick([self.import_, self.function, self.matcher, self.view, self.sequence, self.schedule])(),
                END,
            ]
        return self.laid_out(items)

    def pick(self, choices: list[Callable[[], list[str]]]) -> Callable[[], list[str]]:
        return self.random.choice(choices)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def name(self) -> str:
        return self.random.choice(NAMES)

    def some(self, make: Callable[[], list[str]], least: int = 0, most: int = 4) -> list[str]:
        """Several, with commas between."""
        found: list[str] = []
        for k in range(self.random.randint(least, most)):
            found += [",", *make()] if k else make()
        return found

    # -- items ---------------------------------------------------------------------------------------------------------

    def import_(self) -> list[str]:
        return ["import", '"lib/gemm.tcps"', *(["as", self.name()] if self.chance(0.5) else [])]

    def sequence(self) -> list[str]:
        results = self.random.choice([[], ["->", "loop"], ["->", "(", "loop", ",", *self.type(), ")"]])
        return ["sequence", self.name(), "(", *self.some(self.param), ")", *results, *self.block(0)]

    def function(self) -> list[str]:
        head = ["function", "f", "(", *self.some(self.param), ")", "->", "int"]
        if self.chance(0.7):
            return [*head, "=", *self.expression(3)]
        lets = [t for name in ("a", "b") for t in ("let", name, "=", *self.expression(2), END)]
        return [*head, "{", *lets, "return", *self.expression(3), "}"]

    def matcher(self) -> list[str]:
        return ["matcher", *self.sequence()[1:]]

    def view(self) -> list[str]:
        roles = [t for name in ("a", "b") for t in (CAN_DOCUMENT, "let", name, "=", *self.expression(2), END)]
        return ["view", self.name(), "(", *self.param(), ")", "{", *roles[:-1], "}"]

    def schedule(self) -> list[str]:
        expects = ["expects", '"a.tcp"'] if self.chance(0.3) else []
        return ["schedule", self.name(), "(", "root", ":", "func", ")", *expects, *self.block(0)]

    def param(self) -> list[str]:
        return [self.name(), ":", *self.type(), *(["=", *self.expression(2)] if self.chance(0.4) else [])]

    def type(self) -> list[str]:
        return self.random.choice(
            [["int"], ["op"], ["g", ".", "product"], ["op", "<", "contract", ">"], ["list", "<", "op", ">"]]
        )

    # -- statements ----------------------------------------------------------------------------------------------------

    def block(self, depth: int) -> list[str]:
        body: list[str] = []
        for _ in range(self.random.randrange(4 if depth < 2 else 2)):
            body += [CAN_DOCUMENT, *self.statement(depth + 1), END]
        return ["{", *body[:-1], "}"]

    def statement(self, depth: int) -> list[str]:
        simple = [self.let, self.let, self.knob, self.require, self.do, self.return_]
        compound = [self.for_, self.if_, self.case, self.try_, self.specialize, self.versions, self.tune]
        if depth < 4 and self.chance(0.4):
            return self.random.choice(compound)(depth + 1)
        return self.pick(simple)()

    def let(self) -> list[str]:
        return ["let", self.name(), *([",", self.name()] if self.chance(0.2) else []), "=", *self.selected()]

    def knob(self) -> list[str]:
        domain = ["in", *self.random.choice([["1", "..", "14"], ["pow2", "(", "8", ",", "64", ")"]])]
        domain += ["up_to", self.name()] if self.chance(0.3) else []
        return [
            "knob",
            *(["separate"] if self.chance(0.2) else []),
            self.name(),
            ":",
            "int",
            "=",
            *self.expression(2),
            *(domain if self.chance(0.6) else []),
        ]

    def require(self) -> list[str]:
        return ["require", *self.expression(4), *(['"not so \\"fast\\""'] if self.chance(0.5) else [])]

    def do(self) -> list[str]:
        return [*(["optional"] if self.chance(0.2) else []), *self.call(3)]

    def return_(self) -> list[str]:
        return ["return", *self.some(self.selected)]

    def for_(self, depth: int) -> list[str]:
        return ["for", self.name(), "in", *self.selected(), *self.block(depth)]

    def if_(self, depth: int) -> list[str]:
        found = ["if", *self.expression(2), *self.block(depth)]
        for _ in range(self.random.randrange(2)):
            found += ["else", "if", *self.expression(2), *self.block(depth)]
        return found + (["else", *self.block(depth)] if self.chance(0.5) else [])

    def case(self, depth: int) -> list[str]:
        found = ["case", self.name(), "{"]
        for _ in range(self.random.randrange(1, 3)):
            where = ["where", *self.expression(2)] if self.chance(0.4) else []
            found += [*self.pattern(), *where, "=>", *self.block(depth), "\n"]
        return [*found, "else", "=>", *self.otherwise(depth), "}"] if self.chance(0.5) else [*found[:-1], "}"]

    def pattern(self) -> list[str]:
        if self.chance(0.6):
            return [self.random.choice(CLASSES)]
        named = [t for _ in range(self.random.randrange(2)) for t in (self.name(), "=", *self.shape(1), ",")]
        return ["{", *named, *([self.name(), "="] if self.chance(0.7) else []), *self.shape(2), "}"]

    def shape(self, depth: int) -> list[str]:
        made_by = self.random.choice([["add"], ["and"], ["not"], ["g", ".", "relu_of"]])
        return [*made_by, "(", *([".."] if self.chance(0.1) else self.some(lambda: self.operand(depth))), ")"]

    def operand(self, depth: int) -> list[str]:
        role = ["init", ":"] if self.chance(0.1) else []
        if depth and self.chance(0.5):
            return [*role, *self.shape(depth - 1)]
        return [*role, *self.random.choice([["_"], [self.name()], ["0.5"], ["-", "1"], ["true"]])]

    def otherwise(self, depth: int) -> list[str]:
        return ["fail", '"no"'] if self.chance(0.5) else self.block(depth)

    def try_(self, depth: int) -> list[str]:
        more = ["else", *self.otherwise(depth)] if self.chance(0.6) else []
        return ["try", *self.block(depth), *more]

    def specialize(self, depth: int) -> list[str]:
        head = ["specialize", *self.list(1), "when", *self.expression(2), *self.block(depth)]
        more = ["else", "when", *self.expression(2), *self.block(depth)] if self.chance(0.3) else []
        return [*head, *more, "else", *self.otherwise(depth)]

    def versions(self, depth: int) -> list[str]:
        by = ["by", *self.call(2), "at", *self.list(1)]
        each = ["for", self.name(), "in", *self.list(1), "when", *self.expression(2)]
        return ["versions", self.name(), *self.random.choice([by, each]), *self.block(depth)]

    def tune(self, depth: int) -> list[str]:
        if self.chance(0.5):
            return ["tune", *self.block(depth), "or", *self.block(depth)]
        default = ["=", *self.expression(2)] if self.chance(0.5) else []
        options: list[str] = []
        for word in ("a", "b"):
            where = ["where", *self.expression(2)] if self.chance(0.4) else []
            options += [word, *where, "=>", *self.block(depth), "\n"]
        return ["tune", self.name(), *default, "{", *options[:-1], "}"]

    # -- expressions ---------------------------------------------------------------------------------------------------

    def selected(self) -> list[str]:
        if self.chance(0.7):
            return self.expression(4)
        if self.chance(0.3):
            return [self.name(), "in", self.name()]
        where = ["where", *self.expression(3)] if self.chance(0.5) else []
        return ["match", self.random.choice(["one", "some", "any"]), *self.pattern(), "in", "root", *where]

    def expression(self, depth: int) -> list[str]:
        if depth == 0 or self.chance(0.15):
            return [self.random.choice([self.name(), self.name(), "12", "0.5", '"a // b"', "true", "f32"])]
        return self.random.choice(
            [self.binary, self.binary, self.call, self.call, self.list, self.map, self.unary, self.either, self.dim]
        )(depth)

    def binary(self, depth: int) -> list[str]:
        lhs, rhs = self.expression(depth - 1), self.expression(depth - 1)
        return ["(", *lhs, ")", self.random.choice(BINARY), "(", *rhs, ")"]

    def unary(self, depth: int) -> list[str]:
        return ["(", self.random.choice(["-", "not"]), "(", *self.expression(depth - 1), ")", ")"]

    def either(self, depth: int) -> list[str]:
        return ["(", self.name(), "if", *self.expression(1), "else", *self.expression(1), ")"]

    def dim(self, depth: int) -> list[str]:
        return [self.name(), ".", "m"]

    def call(self, depth: int) -> list[str]:
        method = [".", "specialize"] if self.chance(0.2) else []
        return [self.name(), *method, "(", *self.some(lambda: self.argument(depth)), ")"]

    def argument(self, depth: int) -> list[str]:
        named = [self.random.choice(["tail", "for", "at"]), ":"] if self.chance(0.4) else []
        return [*named, *self.expression(depth - 1)]

    def list(self, depth: int) -> list[str]:
        return ["[", *self.some(lambda: self.expression(depth - 1)), "]"]

    def map(self, depth: int) -> list[str]:
        return ["[", *self.some(lambda: [self.name(), ":", *self.expression(depth - 1)], least=1), "]"]

    # -- layout --------------------------------------------------------------------------------------------------------

    def comment(self, slashes: str = "//") -> str:
        self.count += 1
        return f"{slashes}{self.random.choice([' ', '', '  '])}c{self.count}" + "/ // long" * self.random.randrange(3)

    def laid_out(self, tokens: list[str]) -> str:
        text, depth, before = "", 0, END
        for token in tokens:
            if token in (END, "\n"):
                text += self.ending() if token == END else token
            elif token == CAN_DOCUMENT:
                text += f"{self.comment('///')}\n" if self.chance(0.1) else ""
            else:
                free = (
                    depth > 0 or before in CONTINUES_BEHIND or token in CONTINUES_BEFORE or before in (END, "\n", "{")
                )
                text += self.gap((free or token == "}") and token != ":", before) + token
                depth += (token in ("(", "[")) - (token in (")", "]"))
            before = token if token != CAN_DOCUMENT else before
        return text

    def ending(self) -> str:
        """Between statements."""
        if self.chance(0.1):
            return ";"
        behind = self.random.choice([self.comment(), self.comment("///")]) if self.chance(0.2) else ""
        return f" {behind}\n" + "\n" * self.random.randrange(3) * self.chance(0.3)

    def gap(self, may_break: bool, before: str) -> str:
        if before == ".":
            return ""
        text = " " * self.random.choice([1, 1, 1, 2])
        while may_break and self.chance(0.06):
            text += self.random.choice(["\n", f"{self.comment()}\n", "\n\n", f"\n  {self.comment()}\n"])
        return text
