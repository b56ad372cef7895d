"""inline: a call gives way to the operations of the function."""

from __future__ import annotations

from tests.transform.payloads import check, check_kernels, refusal

CALLS = """\
func @main(%x: tensor<[M]x4xf32>, %y: tensor<3x4xf32>) -> (tensor<[M]x4xf32>, tensor<3x4xf32>) symbols [M: 0..] {
  %a = tcp.call @f(%x, %x) : tensor<[M]x4xf32>
  %b = tcp.call @f(%y, %y) : tensor<3x4xf32>
  tcp.return(%a, %b)
}
func @f(%p: tensor<[R]x4xf32>, %q: tensor<[R]x4xf32>) -> tensor<[R]x4xf32> symbols [R] {
  %s = tcp.add(%p, %q) : tensor<[R]x4xf32>
  %t = tcp.mul(%s, %q) : tensor<[R]x4xf32>
  tcp.return(%t)
}
"""
NAMES = "".join(f'let {name} = match one "{name}" in root\n' for name in ("a", "b", "s", "t"))


def test_handles_denote_the_copies() -> None:
    done = check(CALLS, f"{NAMES}inline(a)\nlet i = tile(t, [d0: 2])\nfuse(s, into: i)")
    assert list(done.module.funcs) == ["main", "f"]
    assert sum(op.opcode == "gml_st.for" for op in done.module.walk()) == 2


def test_a_function_that_nothing_calls_goes_away() -> None:
    done = check(CALLS, f"{NAMES}inline(a)\ninline(b)")
    assert list(done.module.funcs) == ["main"]
    assert [op.opcode for op in done.module.main.body.ops] == ["tcp.add", "tcp.mul"] * 2 + ["tcp.return"]
    check(CALLS, f"{NAMES}inline(a)\ntry {{ inline(b)\nfail }} else {{ }}".replace("\nfail", '\nrequire 1 == 2 "no"'))


def test_refusals() -> None:
    assert refusal(CALLS, f"{NAMES}inline(s)").message == "`call` of `inline` does not fit"
    found = refusal(CALLS, f"{NAMES}bufferize(root)\ninline(a)")
    assert found.message == "%a calls a function on buffers"
    assert (found.required, found.fix) == ("a call of a function on tensors", "inline before `bufferize`")
    assert refusal(CALLS, f"{NAMES}inline(a)\ninline(a)").found is not None


def test_a_branch_that_comes_back_knows_what_its_condition_says() -> None:
    """In it, tiles of 3 of less than 2 elements are one: iterations are known not to meet."""
    text = """func @f(%x: tensor<[N]x5x[N]xf32>) -> tensor<[N]x5x[N]xf32> symbols [N] {
      %y = tcp.exp(%x) : tensor<[N]x5x[N]xf32>
      tcp.return(%y)
    }
    """
    check(
        text,
        'let y = match one "y" in root\n'
        "specialize y when size(y.d2) < 2 { let t = tile(y, [d2: 8], tail: pad) } else { let u = tile(y, [d2: 3]) }\n"
        "let i, j = tile(y, sizes: [d1: 3, d0: 3], parallel: true, tail: pad)\n"
        "let f = outline([y])\ninline(f)",
    )


def test_a_size_that_a_branch_knows_as_a_number_keeps_its_name_in_types() -> None:
    """A multiple of 4 below 4 is 0."""
    text = """func @f(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N multiple_of 4] {
      %y = tcp.exp(%x) : tensor<[N]xf32>
      tcp.return(%y)
    }
    """
    check(
        text,
        'let y = match one "y" in root\n'
        "specialize y when size(y.d0) < 4 { let t = tile(y, [d0: 4], tail: peel) } else { }\n"
        "let f = outline([y])\ninline(f)",
        [{"N": 0}, {"N": 4}, {"N": 12}],
    )


def test_dims_that_have_the_names_of_sizes_stay() -> None:
    text = """\
func @f(%x: tensor<[N]x7xf32>) -> tensor<7x[N]xf32> symbols [N] {
  %c = tcp.call @g(%x) : tensor<7x[N]xf32>
  tcp.return(%c)
}
func @g(%x: tensor<[i]x[j]xf32>) -> tensor<[j]x[i]xf32> symbols [i, j] {
  %y = tcp.generic(%x) {iterators = [["i", "parallel"], ["j", "parallel"]], maps = [[j, i], [i, j]], positions = [i]} ({
      (%e: f32, %i: si64):
    %f = tcp.cast(%i) : f32
    %s = tcp.add(%e, %f) : f32
    tcp.yield(%s)
  }) : tensor<[j]x[i]xf32>
  tcp.return(%y)
}
"""
    done = check(text, 'inline(match one "c" in root)')
    assert "maps = [[j, i], [i, j]], positions = [i]" in done.module.text()


def test_what_a_function_in_a_loop_asserts_is_known_in_the_call() -> None:
    text = """\
func @f(%x: tensor<[M]x[K]xf32>) -> tensor<[M]x[K]xf32> symbols [M: 0.., K: 0..] {
  %o = tcp.empty : tensor<[M]x[K]xf32>
  %r = gml_st.for %i in 0 to M step 4 (%d = %o) {
    %t = gml_st.materialize(%x) tile [%i, 0] [min(4, M - %i), K] : tensor<[min(4, M - %i)]x[K]xf32>
    %a = tcp.call @g(%t) : tensor<[min(4, M - %i)]x[K]xf32>
    gml_st.yield(%a, %d) tile [%i, 0] [min(4, M - %i), K]
  } : tensor<[M]x[K]xf32>
  tcp.return(%r)
}
func @g(%y: tensor<[A]x[B]xf32>) -> tensor<[A]x[B]xf32> symbols [A: 0.., B: 0..] {
  tcp.assert {any = [A <= 4], message = "few"}
  %b = tcp.neg(%y) : tensor<[A]x[B]xf32>
  tcp.return(%b)
}
"""
    body = "let c = match one call in root\ninline(c)"
    done = check(text, body)
    assert all(op.opcode != "tcp.assert" for op in done.module.walk())
    found = refusal(text.replace("A <= 4", "A <= 3"), body)
    assert found.message == "@g asserts something of its sizes, and these depend on the variable %i"
    assert found.required == "sizes of which this is known in the call: min(4, M - %i) <= 3"


def test_a_branch_knows_the_size_that_a_function_takes() -> None:
    text = """\
func @f(%x: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 0.., N: 0..] {
  %r = gml_st.if M == 8 and N <= 5 {
    %a = tcp.neg(%x) : tensor<[M]x[N]xf32>
    %b = tcp.call @g(%a) : tensor<[M]x[N]xf32>
    %c = tcp.add(%b, %b) : tensor<[M]x[N]xf32>
    tcp.yield(%c)
  } else {
    tcp.yield(%x)
  } : tensor<[M]x[N]xf32>
  tcp.return(%r)
}
func @g(%y: tensor<8x[B]xf32>) -> tensor<8x[B]xf32> symbols [B: 0..5] {
  %d = tcp.mul(%y, %y) : tensor<8x[B]xf32>
  tcp.return(%d)
}
"""
    sizes = [{"M": m, "N": n} for m, n in ((8, 3), (8, 0), (7, 3), (8, 17), (8, 5))]
    names = "".join(f'let {name} = match one "{name}" in root\n' for name in "acd")
    inlined = f"{names}let k = match one call in root\ninline(k)"
    bodies = ["", inlined, f"{inlined}\noutline([d])", f"{inlined}\noutline([a])\noutline([c])"]
    for body in bodies[1:]:
        check(text, body, sizes)
    check_kernels({body: (text, body) for body in bodies}, sizes)
