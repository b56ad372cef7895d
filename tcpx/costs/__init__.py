"""What kernels cost: what a payload has to do at least, and what its loop nest does at the lowest level."""
