"""What benchmarks measure with: profiles, traffic, processes, repeated runs."""
