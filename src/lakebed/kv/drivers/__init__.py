"""One module a database."""
