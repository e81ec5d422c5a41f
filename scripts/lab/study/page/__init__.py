"""The page of a study: a file for each experiment, and one for the whole."""
