"""Measured workloads, the peers that tcpx is measured beside, and the runner behind `tcpx bench`."""
