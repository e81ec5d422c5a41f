"""Demonstration, simulation, study, benchmarks and attacks. Nothing in the product imports them."""
