"""The Python client: one class a noun, sync, on top of the REST API."""
