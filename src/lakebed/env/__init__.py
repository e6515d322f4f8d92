"""What a process takes from its surroundings: time, chance, threads. All of it is injected."""
