"""The page of a study: one file for each experiment, `layout`, and `results` for all."""
