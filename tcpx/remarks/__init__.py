"""What is slow in a kernel, said beside it: the statement, the cause, the factor and what repairs it."""
