"""Does every step of a schedule keep the numbers, and which one does not; which one made the kernel slow."""

from tcpx.verification.bisection import Bisection, bisect
from tcpx.verification.rows import verify_rows
from tcpx.verification.speed import Cut, SpeedBisection, bisect_speed
from tcpx.verification.steps import StepVerification, WrongStep, verify_steps
from tcpx.verification.values import ValueBisection, WrongValue, bisect_values

__all__ = [
    "Bisection",
    "Cut",
    "SpeedBisection",
    "StepVerification",
    "ValueBisection",
    "WrongStep",
    "WrongValue",
    "bisect",
    "bisect_speed",
    "bisect_values",
    "verify_rows",
    "verify_steps",
]
