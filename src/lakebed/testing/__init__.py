"""Conformance suites, fakes and the simulation; shipped, so that outside drivers can use them."""
