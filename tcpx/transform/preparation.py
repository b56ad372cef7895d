"""What is done to a payload before the first step of a schedule."""

from tcpx.payload.ir import Module
from tcpx.payload.rewriter import Rewriter
from tcpx.transform.settled_reads import settle_reads
from tcpx.transform.wide_accumulators import widen_accumulators


def prepare(rewriter: Rewriter, module: Module) -> None:
    """Let accumulators have their own dtype, and reads of destinations stay where they are."""
    widen_accumulators(rewriter, module)
    settle_reads(rewriter, module)
