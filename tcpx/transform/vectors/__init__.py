"""Register tiles to instructions: unrolling n-D vectors to 1-D ones, and choosing a target row for each."""
