"""From tensor values to memory: which value lives where, what has to be copied, and the loops that compute it.

`preparation` brings a function into the form the rest expects. `effects` says what its operations read and write,
`storage` where each value lives, `occupancy` what a memory holds when, `conflicts` whether that is sound, `placement`
decides; `lowering` rewrites the function, with `loop_nests` for operations that still work on tensors. `workspace`
plans the memory that is left.
"""
