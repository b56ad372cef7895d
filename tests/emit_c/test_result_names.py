"""The names of results in C and Python: they depend on the payload alone, never on the schedule."""

import pytest

import tcpx

NARROW = """
func @f(%p: tensor<2x8x8xbf16>, %v: tensor<2x8x16xbf16>) -> tensor<2x8x16xbf16> {
  %o = tcp.contract(%p, %v) {lhs = ["h", "t", "u"], rhs = ["h", "u", "e"], out = ["h", "t", "e"]} : tensor<2x8x16xf32>
  %y = tcp.cast(%o) : tensor<2x8x16xbf16>
  tcp.return(%y)
}
"""
SEVERAL = """
func @f(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>) -> (tensor<8x16xf32>, %sum: tensor<8xf32>, tensor<8x16xf32>) {
  %out = tcp.matmul(%x, %w) : tensor<8x16xf32>
  %out.1 = tcp.exp(%out) : tensor<8x16xf32>
  %s = tcp.reduce_sum(%out.1) {dims = [1]} : tensor<8xf32>
  tcp.return(%out, %s, %out.1)
}
"""
TAKEN = """
func @f(%out: tensor<8x16xf32>, %h: inout tensor<16xf32>) -> (%h: tensor<16xf32>, tensor<8x16xf32>, tensor<8xf32>) {
  %y = tcp.add(%out, broadcast(%h, [1])) : tensor<8x16xf32>
  %g = tcp.mul(%h, 2.0) : tensor<16xf32>
  %s = tcp.reduce_sum(%y) {dims = [1]} : tensor<8xf32>
  tcp.return(%g, %y, %s)
}
"""
SCHEDULES = {
    "empty": "language 1\nschedule s(root: func) {\n  let ops = match any elementwise in root\n}\n",
    "bufferized": "language 1\nschedule s(root: func) {\n  bufferize(root)\n}\n",
    "default": None,
}


@pytest.mark.parametrize("target", ["generic", "x86_avx512", "sapphire_rapids"])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("payload", "names"),
    [(NARROW, ["out"]), (SEVERAL, ["out", "sum", "out.1"]), (TAKEN, ["h", "out.1", "out.2"])],
    ids=["one", "several", "taken"],
)
def test_the_names_of_results_depend_on_the_payload_alone(
    payload: str, names: list[str], schedule: str, target: str
) -> None:
    text = SCHEDULES[schedule]
    chosen = None if text is None else tcpx.parse_schedule(text)
    source = tcpx.emit(tcpx.parse(payload), chosen, target=target)
    assert [result.name for result in source.signature.results] == names
    head = source.c_source.partition(f"int {source.signature.c_name}(")[2].partition(")")[0]
    assert all(f"*restrict {name.replace('.', '_')}" in head for name in names)
