"""The use cases as the edges call them; permissions are checked here."""
