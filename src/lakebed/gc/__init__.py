"""Garbage collection, the server's side: who may collect, which commits are let go, and what is live."""
