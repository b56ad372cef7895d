"""What the verifier refuses, in text and in payloads that were changed behind its back."""

from __future__ import annotations

import numpy as np
import pytest

from tcpx.payload.builder import Builder, tensor, tile
from tcpx.payload.constants import Constants
from tcpx.payload.diagnostics import Diagnostic, VerifyError
from tcpx.payload.ir import Block, Module, Operation, Value
from tcpx.payload.ops.exponential import Exp
from tcpx.payload.ops.generic import Return, Yield
from tcpx.payload.ops.gml_st import For, If
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import Symbol, Var
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.text.parser import parse
from tcpx.payload.types import TensorType, f32
from tcpx.payload.verifier import verify_module, verify_ops

FUNC = "func @f(%x: tensor<[M]x8xf32>, %v: vector<4xf32>, %u: vector<4xsi32>) symbols [M: 1..9] {{\n {}\n tcp.return }}"
GENERIC = "%y = tcp.generic(%x) {{iterators = {}, maps = {}{}}} ({{ ({}): {} }}) : tensor<[M]x8xf32>"
SUM = (
    '%y = tcp.generic(%x) {{iterators = [["m", "parallel"], ["k", "reduction"]], maps = [[m, k], [m]], '
    'combiner = "tcp.add"}} ({{ (%e: f32, %acc: f32): {} tcp.yield(%q) }}) : tensor<[M]xf32>'
)
POINTWISE = ('[["m", "parallel"], ["n", "parallel"]]', "[[m, n], [m, n]]")


def refused(text: str) -> Diagnostic:
    with pytest.raises(VerifyError) as caught:
        parse(text)
    return caught.value.diagnostic


@pytest.mark.parametrize(
    ("head", "message", "required", "found"),
    [
        (
            "func @f(%x: tensor<4xf32> strided)",
            "what is strided has rows",
            "a tensor of two dims or more: the elements of the innermost lie next to one another",
            "%x: tensor<4xf32>, of 1 dim",
        ),
        (
            "func @f(%x: vector<4x2xf32> strided)",
            "what is strided has rows",
            "a tensor of two dims or more: the elements of the innermost lie next to one another",
            "%x: vector<4x2xf32>, of 2 dims",
        ),
        *(
            (
                f"func @f(%x: tensor<2x4xf32>, %y: tensor<2x4xf32>) {{strided = {held}}}",
                "`strided` is the positions of arguments and results",
                "a list of rising positions below 2",
                found,
            )
            for held, found in (("[1, 0]", "(1, 0)"), ("[0, 2]", "(0, 2)"), ("true", "True"))
        ),
    ],
)
def test_what_may_be_strided(head: str, message: str, required: str, found: str) -> None:
    held = refused(f"{head} {{ tcp.return }}")
    assert (held.message, held.required, held.found) == (f"%f (func): {message}", required, found)


def refused_module(module: Module) -> Diagnostic:
    with pytest.raises(VerifyError) as caught:
        verify_module(module)
    return caught.value.diagnostic


@pytest.mark.parametrize(
    ("statement", "message", "required", "found"),
    [
        (
            "%y = tcp.exp : f32",
            "%y (tcp.exp): the operation has the wrong number of operands",
            "operand",
            "0 operands",
        ),
        (
            "%y = tcp.matmul(%x) : f32",
            "%y (tcp.matmul): the operation has the wrong number of operands",
            "lhs, rhs, init = ...",
            "1 operand: %x",
        ),
        (
            "tcp.exp(%x)",
            "tcp.exp: the operation has the wrong number of results",
            "1 result",
            "0 results",
        ),
        (
            "%y = tcp.exp(%x) ({ }) : f32",
            "%y (tcp.exp): the operation has the wrong number of regions",
            "0 regions",
            "1 region",
        ),
        (
            "tcp.return %y = tcp.empty : f32",
            "tcp.return: only the last operation of a region ends it",
            "the last place in the region",
            "2 operations behind it",
        ),
        (
            "gml_st.for %i in 0 to M { tcp.yield }",
            "tcp.yield: the body of a loop has no terminator",
            "gml_st.yield for what is written",
            "tcp.yield at its end",
        ),
        (
            "gml_st.if M < 4 { tcp.return }",
            "gml_st.if: the region ends in a tcp.yield",
            "tcp.yield as the last operation",
            "tcp.return",
        ),
        (
            "%y = gml_st.if M < 4 { tcp.yield(%x) } : tensor<[M]x8xf32>",
            "%y (gml_st.if): each branch yields the results",
            "tensor<[M]x8xf32>",
            "nothing in the second branch",
        ),
        (
            "gml_st.yield(%x, %x) tile [0, 0] [M, 8]",
            "gml_st.yield: %x is no destination of the innermost loop",
            "a loop around it",
            "%x: tensor<[M]x8xf32>, an argument of func",
        ),
        (
            "%y = gml_st.for %i in 0 to M (%o = %x) { gml_st.for %j in 0 to M {"
            " gml_st.yield(%x, %o) tile [0, 0] [M, 8] } } : tensor<[M]x8xf32>",
            "gml_st.yield: %o is no destination of the innermost loop",
            "a loop with destinations",
            "%o: tensor<[M]x8xf32>, an argument of gml_st.for",
        ),
        (
            "%y = gml_st.for %i in 0 to M (%o = %x) { } : tensor<[M]x4xf32>",
            "%i (gml_st.for): init, destination and result have one type",
            "tensor<[M]x8xf32>",
            "destination tensor<[M]x8xf32>, result tensor<[M]x4xf32>",
        ),
        (
            "%y = gml_st.parallel %i in 0 to M (%o = %v) { } : vector<4xf32>",
            "%i (gml_st.parallel): a parallel loop carries no values",
            "destinations on tensors or buffers",
            "%o: vector<4xf32>",
        ),
        (
            "%y = gml_st.materialize(%x) : f32",
            "%y (gml_st.materialize): the subset is missing",
            "tile [offsets] [sizes]",
            "no tile",
        ),
        (
            "%y = gml_st.materialize(%x) tile [0] [M] : tensor<[M]xf32>",
            "%y (gml_st.materialize): a subset has an offset and a size per dim",
            "rank 2 of %x: tensor<[M]x8xf32>",
            "tile [0] [M]",
        ),
        (
            "%y = gml_st.materialize(%x) tile [0, 0] [M, 4] : tensor<[M]x8xf32>",
            "%y (gml_st.materialize): value and subset have one shape",
            "[M, 4]",
            "%y: tensor<[M]x8xf32>",
        ),
        (
            "%y = vector.read(%x) tile [0, 0] [1, 4] drop [0] : vector<4xf64>",
            "%y (vector.read): value and subset have one dtype",
            "f32",
            "%y: vector<4xf64>",
        ),
        (
            "vector.write(%v, %x) tile [0, 0] [1, 4] drop [0]",
            "vector.write: a write goes to a buffer",
            "a buffer as second operand",
            "%x: tensor<[M]x8xf32>",
        ),
        (
            "buffer.prefetch(%x) tile [0] [1]",
            "buffer.prefetch: a subset has an offset and a size per dim",
            "rank 2 of %x: tensor<[M]x8xf32>",
            "tile [0] [1]",
        ),
        (
            "%y = tcp.add(%v, %u) : vector<4xf32>",
            "%y (tcp.add): operands and result have one dtype",
            "f32",
            "%u: vector<4xsi32>",
        ),
        (
            "%y = tcp.add(%v, %v) : vector<8xf32>",
            "%y (tcp.add): dim 0 of `lhs` does not agree with `d0`",
            "8, the extent of `d0`",
            "4 in %v: vector<4xf32>",
        ),
        (
            "%y = tcp.add(%v, %v) : vector<4x1xf32>",
            "%y (tcp.add): `lhs` has the wrong rank",
            "rank 2",
            "%v: vector<4xf32>",
        ),
        (
            "%y = tcp.cast(%v) : tensor<4xf64>",
            "%y (tcp.cast): operand and result are of one kind (scalar, tensor or vector)",
            "tensor<4xf64>",
            "vector<4xf32>",
        ),
        (
            "%y = tcp.div(%u, %u) : vector<4xsi32>",
            "%y (tcp.div): the operation is defined on floats",
            "f64, f32, f16 or bf16",
            "si32",
        ),
        (
            "%t = tcp.cast(%u) : vector<4xi1> %y = tcp.sub(%t, %t) : vector<4xi1>",
            "%y (tcp.sub): there is no difference of truth values",
            "a number type",
            "i1",
        ),
        (
            "%y = tcp.matmul(%x, %v) : tensor<[M]x8xf32>",
            "%y (tcp.matmul): `rhs` has the wrong rank",
            "rank 2",
            "%v: vector<4xf32>",
        ),
        (
            "%y = tcp.matmul(%x, %x) : tensor<[M]x8xf32>",
            "%y (tcp.matmul): dim 0 of `rhs` does not agree with `k`",
            "8, the extent of `k`",
            "M in %x: tensor<[M]x8xf32>",
        ),
        (
            "%y = tcp.transpose(%x) {permutation = [0, 0]} : tensor<8x[M]xf32>",
            "%y (tcp.transpose): `permutation` names each dim once",
            "a permutation of 0..1",
            "[0, 0]",
        ),
        (
            "%y = tcp.broadcast(%v) {dims = [2]} : tensor<[M]x4xf32>",
            "%y (tcp.broadcast): `dims` places each operand dim in the result",
            "increasing dims below 2",
            "[2]",
        ),
        (
            "%y = tcp.pad(%x) {value = 0.0} : tensor<[M]x7xf32>",
            "%y (tcp.pad): padding makes no dim smaller",
            "at least 8",
            "7 in tensor<[M]x7xf32>",
        ),
        (
            "%y = tcp.reshape(%x) : tensor<[M]xf32>",
            "%y (tcp.reshape): a reshape keeps the number of elements",
            "8*M elements",
            "M elements in tensor<[M]xf32>",
        ),
        (
            "%y = vector.extract(%v) {lane = 4} : f32",
            "%y (vector.extract): there is no such lane",
            "a lane of a 1-D vector",
            "lane 4 of vector<4xf32>",
        ),
        (
            "%y = vector.from_elements(%v) : vector<1xf32>",
            "%y (vector.from_elements): the operands are the lanes of the result",
            "vector<1xf32> of f32",
            "vector<1xf32> of vector<4xf32>",
        ),
        (
            "%y = vector.to_tensor(%v) : tensor<8xf32>",
            "%y (vector.to_tensor): the result is a tensor like the operand",
            "tensor<4xf32>",
            "tensor<8xf32>",
        ),
        (
            '%y = tcp.const {constant = "w"} : tensor<2xf32>',
            '%y (tcp.const): there is no constant "w"',
            "a stored array",
            "stored: none",
        ),
        (
            "%y = tcp.const {value = 0.0} : tensor<[M]xf32>",
            "%y (tcp.const): a constant has a static shape",
            "dims that are numbers",
            "tensor<[M]xf32>",
        ),
        (
            GENERIC.format('[["m", "parallel"], ["n", "sideways"]]', POINTWISE[1], "", "%e: f32", "tcp.yield(%e)"),
            "%y (tcp.generic): the attribute `iterators` is not a list of names with their kinds",
            'iterators = [["m", "parallel"], ["k", "reduction"]], or ["k", "reduction", 3]',
            '[["m", "parallel"], ["n", "sideways"]]',
        ),
        (
            GENERIC.format(*POINTWISE, "", "%e: f64", "%q = tcp.cast(%e) : f32 tcp.yield(%q)"),
            "%y (tcp.generic): the arguments of the body are elements of the inputs, then the accumulator",
            "f32",
            "f64",
        ),
        (
            GENERIC.format(*POINTWISE, "", "%e: f32", "%q = tcp.cast(%e) : f64 tcp.yield(%q)"),
            "%y (tcp.generic): the body hands out one element of the result",
            "tcp.yield of one f32",
            "f64",
        ),
        (
            GENERIC.format(*POINTWISE, "", "%e: f32", "tcp.yield()"),
            "%y (tcp.generic): the body hands out one element of the result",
            "tcp.yield of one f32",
            "nothing",
        ),
        (
            GENERIC.format(*POINTWISE, "", "%e: f32", "%q = tcp.exp(%e) : f32"),
            "%y (tcp.generic): the region ends in a tcp.yield",
            "tcp.yield as the last operation",
            "no terminator",
        ),
        (
            GENERIC.format(POINTWISE[0], "[[m + n, n], [m, n]]", "", "%e: f32", "tcp.yield(%e)"),
            "%y (tcp.generic): dim 0 of `operand 0` does not agree with `m + n`",
            "at least M + 7, for `m + n`",
            "M in %x: tensor<[M]x8xf32>",
        ),
        (
            GENERIC.format(POINTWISE[0], "[[m, q], [m, n]]", "", "%e: f32", "tcp.yield(%e)"),
            "%y (tcp.generic): a map uses `q`",
            "numbers and dims (m, n), no sizes",
            "q",
        ),
        (
            GENERIC.format(POINTWISE[0], "[[m, n], [2*m, n]]", "", "%e: f32", "tcp.yield(%e)"),
            "%y (tcp.generic): the result map names each parallel dim once",
            "m, n, each once and in any order",
            "[2*m, n]",
        ),
        (
            SUM.format("%q = tcp.mul(%acc, %e) : f32"),
            "%y (tcp.generic): the body joins its accumulator by the `combiner`, with what does not depend on it",
            "tcp.yield of tcp.add of %acc and an element",
            "%q = tcp.mul",
        ),
        (
            SUM.format("%q = tcp.add(%acc, %acc) : f32"),
            "%y (tcp.generic): the body joins its accumulator by the `combiner`, with what does not depend on it",
            "tcp.yield of tcp.add of %acc and an element",
            "%q = tcp.add",
        ),
        (
            SUM.format("%q = tcp.sub(%e, %acc) : f32"),
            "%y (tcp.generic): the body joins its accumulator by the `combiner`, with what does not depend on it",
            "tcp.yield of tcp.add of %acc and an element",
            "%q = tcp.sub",
        ),
        (
            SUM.format("%s = tcp.less(%e, %acc) : i1 %q = tcp.select(%s, %acc, %e) : f32"),
            "%y (tcp.generic): the body joins its accumulator by the `combiner`, with what does not depend on it",
            "tcp.yield of tcp.add of %acc and an element",
            "%q = tcp.select",
        ),
        (
            '%y = tcp.contract(%x, %x) {lhs = ["m", "n"], rhs = ["m", "n"], out = ["m", "m"]} : tensor<[M]x[M]xf32>',
            "%y (tcp.contract): `out` lists `m` twice",
            "dims of the operands, each once: m, n",
            '"m", "m"',
        ),
        (
            '%y = tcp.contract(%x, %x) {lhs = ["m", "n"], rhs = ["m", "n"], out = ["m", "b"]} : tensor<[M]x3xf32>',
            "%y (tcp.contract): `out` lists `b`, which no operand has",
            "dims of the operands, each once: m, n",
            '"m", "b"',
        ),
        (
            "%y = gml_st.materialize(%x) tile [0, 6] [M, 3] : tensor<[M]x3xf32>",
            "%y (gml_st.materialize): the subset leaves its source in dim 1",
            "elements 0 to 7 of %x: tensor<[M]x8xf32>",
            "tile [0, 6] [M, 3]",
        ),
        (
            "%y = gml_st.materialize(%x) tile [M, 0] [1, 8] : tensor<1x8xf32>",
            "%y (gml_st.materialize): the subset leaves its source in dim 0",
            "elements 0 to M - 1 of %x: tensor<[M]x8xf32>",
            "tile [M, 0] [1, 8]",
        ),
        (
            "%y = gml_st.materialize(%x) tile [0, 1] [M, 4] [1, 0 - 1] : tensor<[M]x4xf32>",
            "%y (gml_st.materialize): the subset leaves its source in dim 1",
            "elements 0 to 7 of %x: tensor<[M]x8xf32>",
            "tile [0, 1] [M, 4] [1, -1]",
        ),
    ],
)
def test_texts(statement: str, message: str, required: str | None, found: str | None) -> None:
    error = refused(FUNC.format(statement))
    assert (error.message, error.required, error.found) == (message, required, found)
    assert error.payload is not None
    assert error.payload.line == 2


@pytest.mark.parametrize(
    "body",
    [
        "%q = tcp.fma(%e, %e, %acc) : f32",
        "%q = tcp.sub(%acc, %e) : f32",
        "%r = tcp.add(%e, %acc) : f32 %q = tcp.add(%r, %e) : f32",
        "%s = tcp.less(%e, %e) : i1 %r = tcp.add(%acc, %e) : f32 %q = tcp.select(%s, %r, %acc) : f32",
    ],
)
def test_bodies_that_join_their_accumulator(body: str) -> None:
    parse(FUNC.format(SUM.format(body)))


def test_a_function_returns() -> None:
    error = refused("func @f() { }")
    assert (error.message, error.found) == ("%f (func): a function ends in a tcp.return", "no terminator")


def test_constants_fit_their_type() -> None:
    constants = Constants({"w": np.zeros((2, 3), np.float32)})
    text = 'func @f() {{ %y = tcp.const {{constant = "w"}} : tensor<{}> tcp.return }}'
    parse(text.format("2x3xf32"), constants=constants)
    for type_ in ("3x2xf32", "2x3xf64"):
        with pytest.raises(VerifyError) as caught:
            parse(text.format(type_), constants=constants)
        assert caught.value.diagnostic.message == '%y (tcp.const): the constant "w" does not fit its type'
        assert caught.value.diagnostic.found == "float32 of shape (2, 3)"


# -- payloads that no text can say ---------------------------------------------------------------------------------


def nest() -> tuple[Module, dict[str, Operation]]:
    """%a = exp x; for i { %b = exp x; for j { %c = exp b } }; %d = exp a."""
    m = Symbol("M", 1, 64)
    b = Builder()
    with b.func("f", {"x": tensor([m], f32)}, [m]) as (x,):
        a = b.op(Exp, [x], name="a")
        with b.loop(For, "i", (0, m, 4), {"o": x}, ["r"]):
            inner = b.op(Exp, [x], name="b")
            with b.loop(For, "j", (0, 4, 1)):
                b.op(Exp, [inner], name="c")
        b.returns(b.op(Exp, [a], name="d"))
    module = b.finish()
    return module, {op.name: op for op in module.walk() if op.name}


def test_dominance() -> None:
    for user, value in (("a", "d"), ("a", "a"), ("b", "c"), ("d", "b")):
        module, ops = nest()
        ops[user].operands[0].uses.remove((ops[user], 0))
        ops[user].operands[0] = ops[value].result
        ops[value].result.uses.append((ops[user], 0))
        error = refused_module(module)
        assert error.message == f"%{user} (tcp.exp): operand 0, %{value}, is not defined here"
        assert error.found == f"%{value}: tensor<[M]xf32>, a result of tcp.exp at {ops[value].location}"
        with pytest.raises(VerifyError):
            verify_ops([ops[user]])


def test_dominance_after_a_move() -> None:
    module, ops = nest()
    rewriter = Rewriter(module)
    rewriter.move(ops["a"], InsertPoint.after(ops["d"]))
    with pytest.raises(VerifyError, match=r"operand 0, %a, is not defined here"):
        verify_ops(rewriter.take_touched())
    rewriter.rollback(0)
    verify_module(module)


@pytest.mark.parametrize("damage", ["missing", "twice", "stale"])
def test_use_lists(damage: str) -> None:
    module, ops = nest()
    uses = ops["a"].result.uses
    match damage:
        case "missing":
            uses.clear()
        case "twice":
            uses.append(uses[0])
        case _:
            uses.append((ops["b"], 0))
    expected = {
        "missing": "%d (tcp.exp): operand 0 is missing in the uses of %a",
        "twice": "%a lists a use twice",
        "stale": "%b (tcp.exp): %a lists a use that is none",
    }
    assert refused_module(module).message == expected[damage]
    with pytest.raises(VerifyError):
        verify_ops([ops["d"]])


def test_a_use_by_a_detached_operation_is_stale() -> None:
    module, ops = nest()
    Exp([ops["a"].result], [ops["a"].result.type])
    assert refused_module(module).message == "tcp.exp: %a lists a use that is none"


def test_loop_variables_and_symbols_are_in_scope() -> None:
    module, ops = nest()
    i = ops["i"].attributes["var"]
    assert isinstance(i, Var)
    for op, held, shown in (
        ("d", {"lane": i.size()}, "the loop variable %i is not known here"),
        ("d", {"subset": tile([i], [4])}, "the loop variable %i is not known here"),
        ("d", {"when": (Predicate.of("<", i.size(), 4),)}, "the loop variable %i is not known here"),
        ("c", {"lane": Var("k", 0, 4).size()}, "the loop variable %k is not known here"),
        ("a", {"lane": Symbol("N").size()}, "the symbol N is not known here"),
        ("j", {"var": Var("j", 0, Symbol("N").size())}, "the symbol N is not known here"),
        ("j", {"var": i}, "a loop around this one is also called %i"),
    ):
        before = dict(ops[op].attributes)
        ops[op].attributes.update(held)
        assert refused_module(module).message == f"%{op} ({ops[op].opcode}): {shown}"
        ops[op].attributes = before
    ops["c"].attributes["lane"] = i.size()
    verify_module(module)
    ops["i"].results[0].type = TensorType((i.size(),), f32)
    assert "the loop variable %i is not known here" in refused_module(module).message


def test_names_are_unique_where_they_are_visible() -> None:
    for old, new, message in (
        ("d", "a", "the name %a is taken"),
        ("c", "b", "the name %b is taken"),
        ("a", "x", "the name %x is taken"),
        ("a", "", "a value has no proper name"),
        ("a", "1", "a value has no proper name"),
        ("a", "p//q", "a value has no proper name"),
    ):
        module, ops = nest()
        ops[old].result.name = new
        assert refused_module(module).message == message
    module, ops = nest()
    ops["d"].result.name = "c"
    verify_module(module)


def test_symbols_have_names() -> None:
    for name in ("inf", "a b", "f32"):
        module, _ = nest()
        module.main.symbols = (*module.main.symbols, Symbol(name))
        assert refused_module(module).message == "%f (func): the symbols of a function have different, free names"


def test_structure() -> None:
    module, ops = nest()
    ops["j"].regions[0].parent = ops["i"]
    assert refused_module(module).message == "%j (gml_st.for): a region does not know where it stands"
    module, ops = nest()
    ops["i"].regions.append(Block(parent=ops["i"]))
    assert refused_module(module).message == "%i (gml_st.for): the operation has the wrong number of regions"
    module, _ = nest()
    module.funcs["g"] = module.funcs.pop("f")
    assert refused_module(module).message == "%f (func): a function stands in the module under its own name"


def test_only_what_was_touched_is_checked() -> None:
    module, ops = nest()
    ops["c"].attributes["lane"] = Symbol("N").size()
    verify_ops([ops["a"]])
    verify_ops([ops["d"]])
    with pytest.raises(VerifyError):
        verify_ops([ops["b"]])
    with pytest.raises(VerifyError):
        verify_ops([ops["c"]])
    ops["c"].attributes.clear()
    ops["i"].attributes["lane"] = Symbol("N").size()
    with pytest.raises(VerifyError, match="the symbol N"):
        verify_ops([ops["c"]])
    rewriter = Rewriter(module)
    rewriter.erase(ops["j"])
    verify_ops([ops["c"], ops["j"], ops["b"]][:2])


def test_an_if_without_ends_is_refused() -> None:
    module, ops = nest()
    made = If([], [], {"predicate": Predicate()}, [Block(), Block()])
    ops["i"].regions[0].append(made)
    assert refused_module(module).message == "gml_st.if: the region ends in a tcp.yield"
    for block in made.regions:
        block.append(Yield())
    verify_module(module)
    made.regions[0].append(Return())
    assert refused_module(module).message.startswith("tcp.yield: only the last operation")


def test_values_of_detached_blocks_are_not_visible() -> None:
    module, ops = nest()
    other = Value("elsewhere", f32, Block())
    ops["d"].operands[0].uses.clear()
    ops["d"].operands[0] = other
    other.uses.append((ops["d"], 0))
    assert refused_module(module).found == "%elsewhere: f32, an argument of a detached block"


def test_an_erased_operation_is_no_user() -> None:
    module, ops = nest()
    rewriter = Rewriter(module)
    rewriter.erase(ops["j"])
    ops["b"].result.uses.append((ops["c"], 0))
    with pytest.raises(VerifyError, match="%b lists a use that is none"):
        verify_ops(rewriter.take_touched(), rewriter.take_left())


def test_what_moves_takes_its_inside_along() -> None:
    module, ops = nest()
    rewriter = Rewriter(module)
    rewriter.move(ops["j"], InsertPoint.before(ops["b"]))
    with pytest.raises(VerifyError, match=r"%c \(tcp.exp\): operand 0, %b, is not defined here"):
        verify_ops(rewriter.take_touched())


def test_nothing_stands_behind_a_terminator() -> None:
    module, ops = nest()
    rewriter = Rewriter(module)
    body = module.main.body
    rewriter.move(ops["d"], InsertPoint(body, len(body.ops)))
    with pytest.raises(VerifyError):
        verify_ops(rewriter.take_touched())


def test_the_work_of_a_check_does_not_depend_on_the_other_users_of_a_value() -> None:
    looked_at: list[int] = []
    for count in (2, 200):
        b = Builder()
        with b.func("f", {"x": tensor([4], f32)}) as (x,):
            made = [b.op(Exp, [x], name=f"e{k}") for k in range(count)]
            b.returns(made[0])
        verify_module(b.finish())
        looked_at.append(verify_ops([made[0].owner] if isinstance(made[0].owner, Exp) else []))
    assert looked_at[0] == looked_at[1] > 0


PARALLEL = """
func @f(%x: tensor<[M]x8xf32>, %v: tensor<1x4xf32>) -> tensor<[M]x8xf32> symbols [M: 1..] {{
  %r = gml_st.parallel %i in 0 to M (%o = %x) {{ {} }} : tensor<[M]x8xf32>
  tcp.return(%r)
}}
"""
YIELD = "gml_st.yield(%v, %o) tile {} [1, 4]"


@pytest.mark.parametrize(
    ("body", "required", "found"),
    [
        (
            f"{YIELD.format('[%i, 0]')} {YIELD.format('[%i, 2]')}",
            "no iteration of %i yields one element twice",
            ("tile [%i, 0] [1, 4] at <text>:3", "tile [%i, 2] [1, 4] at <text>:3"),
        ),
        (
            f"{YIELD.format('[%i, 0]')} {YIELD.format('[M - 1 - %i, 4]')} {YIELD.format('[0, 0]')}",
            "no iteration of %i yields one element twice",
            ("tile [%i, 0] [1, 4] at <text>:3", "tile [0, 0] [1, 4] at <text>:3"),
        ),
        (
            f"{YIELD.format('[%i, 0]')} gml_st.if %i == 0 {{ {YIELD.format('[0, 4]')} }}",
            "no two iterations of %i yield one element",
            ("the yield of %v to tile [0, 4] [1, 4] at <text>:3",),
        ),
        (
            f"gml_st.if %i == 0 {{ {YIELD.format('[%i, 0]')} }} else {{ {YIELD.format('[%i - 1, 2]')} }}",
            "no two iterations of %i yield one element",
            ("tile [%i, 0] [1, 4] at <text>:3", "tile [%i - 1, 2] [1, 4] at <text>:3"),
        ),
    ],
)
def test_yields_of_a_parallel_loop_that_may_overlap(body: str, required: str, found: tuple[str, ...]) -> None:
    error = refused(PARALLEL.format(body))
    assert error.message == "%i (gml_st.parallel): yields to %o are not proved disjoint"
    assert error.required == required
    assert all(part in (error.found or "") for part in found)
    assert error.payload is not None


def test_yields_of_a_parallel_loop_that_are_disjoint() -> None:
    for body in (
        f"{YIELD.format('[%i, 0]')} {YIELD.format('[%i, 4]')}",
        f"{YIELD.format('[%i, 0]')} {YIELD.format('[M - 1 - %i, 4]')}",
        f"gml_st.if %i == 0 {{ {YIELD.format('[%i, 0]')} }} else {{ {YIELD.format('[%i, 2]')} }}",
    ):
        parse(PARALLEL.format(body))


def test_a_value_that_an_iteration_binds_is_another_one_in_the_next() -> None:
    text = """
func @f(%x: tensor<[M + 4]x8xf32>, %v: tensor<1x4xf32>, %ix: tensor<[M]xsi64> in 0 to 5)
    -> tensor<[M + 4]x8xf32> symbols [M: 1..] {{
  %r = gml_st.parallel %i in 0 to M (%o = %x) {{
    %n = gml_st.materialize(%ix) point [%i] : si64
    gml_st.bind(%n) {{var = %k in 0 to 5}}
    gml_st.yield(%v, %o) tile [{}] [1, 4]
  }} : tensor<[M + 4]x8xf32>
  tcp.return(%r)
}}
"""
    parse(text.format("%i, %k"))
    error = refused(text.format("%i + %k, 0"))
    assert error.message == "%i (gml_st.parallel): yields to %o are not proved disjoint"
    assert error.required == "no two iterations of %i yield one element"


def test_positions_have_no_loop_variables() -> None:
    error = refused("""
func @f(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N: 0..] {
  %r = gml_st.for %t in 0 to 3 (%o = %x) {
    %y = tcp.generic(%o) {iterators = [["i", "parallel"]], maps = [[i], [i]], positions = [i + 2*%t]} ({
      (%a: f32, %p: si64):
      %c = tcp.cast(%p) : f32
      %d = tcp.add(%a, %c) : f32
      tcp.yield(%d)
    }) : tensor<[N]xf32>
    gml_st.yield(%y, %o) full
  } : tensor<[N]xf32>
  tcp.return(%r)
}
""")
    assert error.message == "%y (tcp.generic): a map uses `%t`"
    assert (error.required, error.found) == ("numbers and dims (i), no sizes", "%t")


READ = "%a = gml_st.materialize(%o) tile {} : tensor<1x4xf32>"
WIDE = "%b = gml_st.materialize(%x) tile [%i, 0] [1, 8] : tensor<1x8xf32> gml_st.yield(%b, %o) tile [%i, 0] [1, 8]"


@pytest.mark.parametrize(
    ("read", "written"),
    [
        ("[0, 0] [1, 4]", YIELD.format("[%i, 0]")),
        ("[M - %i - 1, 0] [1, 4]", YIELD.format("[%i, 0]")),
        ("[0, 2] [1, 4]", YIELD.format("[%i, 4]")),
        ("[0, 0] [1, 4]", WIDE),
    ],
)
def test_reads_of_what_other_iterations_of_a_parallel_loop_may_yield(read: str, written: str) -> None:
    error = refused(PARALLEL.format(f"{READ.format(read)} {written}"))
    assert error.message == "%i (gml_st.parallel): iterations read what others may yield to %o"
    assert (error.found or "").startswith(f"tile {read} in %a, and the yield of ")
    assert str(error.payload) == "<text>:3:49"


@pytest.mark.parametrize(
    "read",
    [
        "%a = tcp.neg(%o) : tensor<[M]x8xf32>",
        "%a = gml_st.for %j in 0 to 2 (%p = %o) { %b = tcp.neg(%p) : tensor<[M]x8xf32> gml_st.yield(%b, %p) full } : "
        "tensor<[M]x8xf32>",
    ],
)
def test_operations_that_read_all_of_what_a_parallel_loop_writes(read: str) -> None:
    error = refused(PARALLEL.format(f"{read} {YIELD.format('[%i, 0]')}"))
    assert error.message == "%i (gml_st.parallel): iterations read what others may yield to %o"
    assert (error.found or "").startswith("tile [0, 0] [M, 8] in %")


def test_reads_of_what_an_iteration_yields_itself_or_none_does() -> None:
    for read, written in (
        ("[%i, 0] [1, 4]", YIELD.format("[%i, 0]")),
        ("[0, 4] [1, 4]", YIELD.format("[%i, 0]")),
        ("[%i, 2] [1, 4]", WIDE),
    ):
        parse(PARALLEL.format(f"{READ.format(read)} {written}"))
