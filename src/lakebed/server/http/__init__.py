"""HTTP/1.1 in one thread: llhttp parses, uvloop moves bytes, and an ASGI-shaped application answers."""
