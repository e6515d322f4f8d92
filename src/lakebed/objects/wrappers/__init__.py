"""Stores that hold another store: retries, metrics, faults."""
