"""The figures of a study: a file for each experiment, for the look of all, and for the whole."""
