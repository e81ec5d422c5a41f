"""How the benchmarks play, watch, count and fit."""
