"""Bytes to values and back. Pure, so that Spark executors can use it too."""
