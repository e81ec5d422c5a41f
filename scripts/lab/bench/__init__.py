"""`scripts/bench`: speed and memory, compared within one run."""
