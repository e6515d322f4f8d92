"""Logs and metrics: events with fields, and numbers with labels."""
