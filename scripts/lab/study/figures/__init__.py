"""The figures of a study: one file for each experiment, `style`, and `whole` for all."""
