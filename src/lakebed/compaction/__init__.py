"""Compaction: layers of uncommitted changes merged behind the writers' backs."""
