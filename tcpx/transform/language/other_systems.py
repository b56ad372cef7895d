"""What other systems call transforms, and the statement to write here: MLIR, Halide, TVM and Exo."""

from typing import Final

from tcpx.payload.diagnostics import Direction

_TABLE: Final[tuple[tuple[str, str], ...]] = (
    (
        "reorder_loops permute swap_loops loop_interchange interchange_loops",
        "`reorder([kk, i])` for loops, outermost first; `interchange(mm, [n, m, k])` before it is tiled",
    ),
    (
        "tile_using_for tile_using_forall tile_to_forall tile_loop blockize divide_loop strip_mine stripmine",
        "`tile(mm, [m: 8, n: 16])`, with `parallel: true` for threads",
    ),
    ("split_at split_loop cut_loop loop_partition", "`split(i, at: 12)`"),
    ("find_mask match_mask causal_mask fuse_attention_mask detect_mask", "`recognize_mask(x)`, of a softmax"),
    ("trim_loop trim_loops skip_masked skip_blocks cut_causal", "`trim(kk, x)`"),
    (
        "compute_at reverse_compute_at compute_inline fuse_into fuse_into_containing_op tile_and_fuse",
        "`fuse(x, into: i)`",
    ),
    ("fuse_elementwise_ops linalg_fuse_elementwise_ops fuse_ops", "`fuse_elementwise([mm, x])`"),
    ("merge_dots dot_merger horizontal_fusion fuse_qkv batch_matmuls combine_parallel_dense", "`merge([mm, x], n)`"),
    ("transpose_folding absorb_transpose fold_transposes remove_transpose", "`fold_transpose(mm.rhs)`"),
    ("flatten_elementwise collapse_dims collapse_dimensions fuse_dims", "`coalesce(x, [h, w])`"),
    (
        "collapse_loops coalesce_loops loop_coalesce fuse_loops mult_loops",
        "`coalesce(i)` for a loop and the one in it; `coalesce(x, [h, w])` before they are tiled",
    ),
    ("compute_root", "nothing: an operation that is not fused is computed whole"),
    ("vectorize_children_and_apply_patterns", "`vectorize(i)`"),
    ("bufferize_to_allocation", "`promote(mm.out, at: i)`, or `pack(mm.rhs, [k, n], at: i)`"),
    ("hoist_loop_invariant_subsets", "`hoist_accumulator(mm, out_of: kk)`"),
    ("compute_with", "`fuse_siblings(kk, into: i)`, of loops with the same iterations"),
    ("store_root", "`fuse(x, into: i, keep: true)`: the loop computes each element once, for all that read it"),
    ("clone_in", "`fuse(x, into: i, recompute: true)`: the loop has a copy of its own"),
    ("update atomic", "the operation alone: `tile(mm, [k: 64])` steps its reduction dim as any other"),
    ("align_storage storage_align", "`pack(mm.rhs, [k, n pad 16], at: i)`"),
    ("print_loop_nest print_tir", "`print(root)`"),
    ("extract_subproc outline_block", "`outline([mm, x])`"),
    (
        "replace replace_all replace_with_instr",
        "`select_instructions(root)`; a row of the target is named by `lower_to`",
    ),
    ("split_handle split_handles", "`for y in match some contract in root { print(y) }`"),
    ("num_associations", "`len(x)`"),
    ("pad_einsum decompose_padding", "`pad(mm, [m: 6])`"),
    ("get_block match_block", '`let y = match one "mm" in root`'),
    (
        "cache_read cache_write stage_mem store_at store_in hoist_pad promote_buffers lift_alloc expand_dim "
        "fold_storage",
        "`pack(mm.rhs, [k, n], at: i)` for an operand, `promote(mm.out, at: i)` for a result",
    ),
    ("reorder_storage set_layout transform_layout pack_transpose", "`pack(mm.rhs, [n, k], at: i)`"),
    ("parallel parallelise parallelize_loop bind prange", "`parallelize(i)`"),
    (
        "vectorise simd vectorize_loop tensorize set_vector_width set_memory",
        "`tile(mm, [m: 6, n: 16], tail: pad)`, then `vectorize(mm.loop(n))`",
    ),
    ("unroll_loop full_unroll", "`unroll(i)`, or `unroll(i, factor: 4)`"),
    (
        "rfactor split_k tile_reduction tile_reduction_using_for tile_reduction_using_forall",
        "`split_reduction(mm, k, parts: 4, parallel: true)`",
    ),
    ("one_shot_bufferize to_memref lower", "`bufferize(root)`; what the schedule does not lower is lowered behind it"),
    ("canonicalise simplify apply_patterns", "`canonicalize(root)`"),
    ("apply_cse", "`cse(root)`"),
    ("apply_dce eliminate_dead_code delete_dead_code", "`dce(root)`"),
    ("hoist_redundant_vector_transfers register_tile", "`hoist_accumulator(mm, out_of: kk)`"),
    (
        "reduce_in_lanes vector_reduce vectorize_reduction inner_parallel",
        "`tile(x, [k: 64], tail: pad)`, `vectorize(x.loop(k))` and `hoist_accumulator(x, out_of: x.loop(k))`",
    ),
    ("vectorize_scan prefix_sum parallel_scan scan_lanes", "`scan_in_lanes(x, d0)`"),
    ("unswitch_loop loop_unswitch hoist_branch hoist_if sink_into_branches", "`unswitch(root)`"),
    ("apply_licm loop_invariant_code_motion hoist_invariants", "`licm(i)`"),
    ("get_producer get_producer_of_operand", "`producer(x.lhs)`"),
    ("get_consumers get_consumers_of_result consumers", "`users(x)`"),
    ("get_parent get_parent_op", "`parent(x)`"),
    ("get_loops get_loop", "`x.loops(m)`, or `x.loop(m)` for the innermost"),
)

_NOTHING: Final[tuple[tuple[str, str], ...]] = (
    (
        "bound bound_extent set_bounds",
        "ranges are declared with the symbols of the payload: symbols [M: 1..4096]",
    ),
    (
        "gpu_tile gpu_blocks gpu_threads gpu_lanes hexagon map_forall_to_blocks",
        "code is made for CPUs: `parallelize(i)` distributes the iterations of a loop over threads",
    ),
    (
        "lift_scope add_loop remove_loop join_loops shift_loop",
        "loops come from operations: `tile(mm, [m: 6])` makes one, `fuse(x, into: i)` moves an operation into it",
    ),
    (
        "memoize ring_buffer async bind_config write_config bind_expr commute_expr rewrite_expr apply_registered_pass",
        "there is no such step; plugins add steps: docs/plugins.md",
    ),
    (
        "wildcard is_op is_const is_constant has_attr has_dtype has_shape optional_op",
        "a pattern is written as equations: `let y = match one { max(matmul(_, _), 0.0) } in root where rank(it) == 2`",
    ),
    (
        "pack_greedily propagate_layout multitile_sizes pipeline set_precision set_accumulator_type reuse_buffer "
        "sink_alloc delete_buffer",
        "there is no such step yet: docs/coming-from.md says what there is",
    ),
)

OTHER_SYSTEMS: Final = {
    name: Direction(told)
    for names, told in (*((names, f"write {write}") for names, write in _TABLE), *_NOTHING)
    for name in names.split()
}
"""The fix for the name of a transform that there is elsewhere."""

DIALECTS: Final = ("tcp", "linalg", "arith", "math", "tensor", "tosa", "stablehlo", "mhlo", "onnx", "np", "torch")
"""What operations are called by elsewhere, before the dot; a match names the operation alone."""


def of_method(name: str) -> Direction | None:
    """The fix for a method that is called so elsewhere: of a function, a schedule or a block."""
    if name in ("in", "in_"):  # a keyword, which is a name only after a dot
        return Direction("write `pack(mm.rhs, [k, n], at: i)`, which copies what is read")
    return OTHER_SYSTEMS.get(name.lower().rstrip("_"))
