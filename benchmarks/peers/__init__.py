"""One module per peer: `describe(threads)` and `prepare(task)`; run by `tcpx.measure.worker` in the environment that
`peers.yaml` gives it."""
