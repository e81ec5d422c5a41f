"""What the benchmarks compare with: bare loops, MPI, DISROPT."""
