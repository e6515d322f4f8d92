"""One module a resource: its operations, each a handler that parses, calls the catalog, and replies."""
