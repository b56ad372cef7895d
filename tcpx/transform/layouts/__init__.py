"""Layouts of values: the order in which the dims of each lie in memory, over a whole function."""
