"""`scripts/bench`: speed, as ratios within one run."""
