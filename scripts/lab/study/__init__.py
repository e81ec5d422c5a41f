"""`scripts/study`: the paper's study, with a placebo for every cell."""
