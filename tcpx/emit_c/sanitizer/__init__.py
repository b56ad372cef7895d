"""Kernels that run in a process of their own, instrumented with the compiler's address and undefined-behaviour
sanitizers."""
