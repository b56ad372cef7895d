"""What can be found wrong in a schedule without a payload."""

from tcpx.transform.language.checker.program import check_program, require_checked, warn_of

__all__ = ["check_program", "require_checked", "warn_of"]
