"""The benchmarks of scripts/bench: what each measures, and what it is measured against."""
