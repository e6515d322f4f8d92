"""Trees of ranges in object storage: written once, read through a memory-mapped cache."""
