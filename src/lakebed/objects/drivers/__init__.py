"""One module a kind of store."""
