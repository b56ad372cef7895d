"""Targets: what a machine can do, as tables (`*.yaml`) of instruction rows. Imports the payload alone."""

from tcpx.installed import available_targets
from tcpx.target.calibration import digest_of
from tcpx.target.errors import TargetError
from tcpx.target.kernels import KernelRow
from tcpx.target.loader import known_features, load_target, target_with
from tcpx.target.own import own_target, target_at
from tcpx.target.rows import InstructionRow, LaneType, parse_lane_type
from tcpx.target.target import Target

__all__ = [
    "InstructionRow",
    "KernelRow",
    "LaneType",
    "Target",
    "TargetError",
    "available_targets",
    "digest_of",
    "known_features",
    "load_target",
    "own_target",
    "parse_lane_type",
    "target_at",
    "target_with",
]
