"""Benchmarks: our figures beside the peer's, measured in one run. `python -m bench --help`."""
