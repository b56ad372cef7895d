"""Samplers: which point to try next. All walk the space that the constraints leave."""
