"""Lakebed: Git for data lakes."""
