"""`scripts/attack`: what an adversary learns, measured on real components of this project."""
