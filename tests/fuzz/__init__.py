"""Fuzzing: every place where bytes of others enter, fed with bytes that coverage chooses.

`scripts/fuzz TARGET` runs one target with atheris. The corpora are in `corpus`; a test replays
them without atheris. Never here: a target that catches an error outside our tree.
"""
