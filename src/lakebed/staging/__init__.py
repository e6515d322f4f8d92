"""Uncommitted changes: how they are written, kept in layers, and read newest first."""
