"""Stores that hold another store: metrics, shared reads, faults."""
