"""Composition root and the commands that run the engine in this process."""
