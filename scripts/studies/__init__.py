"""The parts of `scripts/study`: its cells, how they are played, tables and figures."""
