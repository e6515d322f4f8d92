"""The lakebed command."""
