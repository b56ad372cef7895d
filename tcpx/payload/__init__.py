"""The payload: types, sizes, operations, text, verifier, reference evaluator, Rewriter. Imports nothing of tcpx.

Reading and writing text is `text.parser` and `text.printer`; building in Python is `builder`.
"""
