"""Measuring: time kernels beside other libraries, against what the machine can do.

timer            seconds of a call from batches of calls; median, spread, confidence interval
calibration      which samples count: those taken while the machine ran at full speed
limits           what the machine can do at most: arithmetic, bandwidths, for 1..n pinned threads
roofline         the least seconds that a piece of work can take
protocol, worker what a process that is timed says and hears; import nothing but the standard library and NumPy
peer_process     such a process, seen from the one that measures
rounds, session  processes timed in turn, the others stopped
rows, table, picture  what came out: JSON, text, SVG
"""
