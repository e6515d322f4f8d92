"""Spark: how a session is found or started, how our code reaches executors, and the jobs that run there."""
