"""What benchmarks compare with: bare loops, MPI, DISROPT."""
