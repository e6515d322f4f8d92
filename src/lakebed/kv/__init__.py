"""The ref store's engine: a small port, its drivers and wrappers."""
