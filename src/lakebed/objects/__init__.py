"""Object storage: a small port, its drivers and wrappers."""
