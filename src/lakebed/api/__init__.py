"""The REST edge: one table of operations, from which router, validation, OpenAPI and route docs all come."""
