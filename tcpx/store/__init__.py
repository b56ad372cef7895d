"""What was computed once, for all processes: ADR 0052."""
