"""What other systems call transforms, and the statement to write here: MLIR, Halide, TVM and Exo."""

from typing import Final

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
    (
        "cache_read cache_write stage_mem store_at store_in hoist_pad promote_buffers",
        "`pack(mm.rhs, [k, n], at: i)` for an operand, `promote(mm.out, at: i)` for a result",
    ),
    ("reorder_storage set_layout transform_layout pack_transpose", "`pack(mm.rhs, [n, k], at: i)`"),
    ("parallel parallelise parallelize_loop bind prange", "`parallelize(i)`"),
    (
        "vectorise simd vectorize_loop tensorize set_vector_width",
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

OTHER_SYSTEMS: Final = {name: f"write {write}" for names, write in _TABLE for name in names.split()}
"""The fix for the name of a transform that there is elsewhere."""
