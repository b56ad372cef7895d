"""A payload that several tests are about, and a schedule that loops over its columns inside of its rows."""

LARGEST = """\
func @f(%x: tensor<1024x1024xf32>) -> tensor<1024xf32> {
  %t = tcp.transpose(%x) {permutation = [1, 0]} : tensor<1024x1024xf32>
  %y = tcp.reduce_max(%t) {dims = [1]} : tensor<1024xf32>
  tcp.return(%y)
}
"""
ALONG_COLUMNS = """\
language 2
schedule s(root: func) {
  let y = match one reduce_max in root
  let i = tile(y, [d0: 1])
  let k = tile(y, [d1: 16])
  vectorize(i)
  hoist_accumulator(y, out_of: k)
}
"""
