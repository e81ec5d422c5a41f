"""Demonstration, simulation, study and benchmarks. May import anything."""
