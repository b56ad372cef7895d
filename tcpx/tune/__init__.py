"""Tuning: values for the knobs of a schedule, found by measuring.

space            the points that satisfy the constraints: enumerated, sampled, walked
space_file       a YAML file that narrows the space and says how to search
verdicts         what came of a candidate
ledger           every candidate of every study, in SQLite; export
"""
