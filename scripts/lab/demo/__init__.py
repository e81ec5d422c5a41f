"""`scripts/demo`: eight invented companies share capacity on this machine."""
