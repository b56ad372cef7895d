"""Traits: what some operations answer beside iterators, maps and a body, each in a small class of its own."""
