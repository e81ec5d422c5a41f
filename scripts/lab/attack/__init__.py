"""`scripts/attack`: what an adversary learns, measured on real parts of this project."""
