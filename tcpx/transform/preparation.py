"""What is done to a payload before the first step of a schedule."""

from tcpx.payload.ir import Module
from tcpx.payload.rewriter import Rewriter
from tcpx.transform.long_forms import expand_short_forms
from tcpx.transform.settled_reads import settle_reads
from tcpx.transform.wide_accumulators import widen_accumulators


def prepare(rewriter: Rewriter, module: Module) -> None:
    """Let operations that are short for others be these, accumulators have their own dtype, and reads of destinations
    stay where they are."""
    expand_short_forms(rewriter, module)
    widen_accumulators(rewriter, module)
    settle_reads(rewriter, module)
