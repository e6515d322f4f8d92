"""The nouns: frozen values, ids and their parsers. No I/O, no formats."""
