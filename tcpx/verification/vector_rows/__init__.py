"""The C of vector rows, built and run beside their semantics.

meaning    what a row computes, in NumPy
source     all rows of a target as one C file
library    the C file as a function, and memory that ends at pages without access
values     rows that compute, on special and on random values
memory     rows that load and store, for every number of lanes
checks     every row of a library, one after the other
process    the same in a process of its own, which a wrong row may end
"""
