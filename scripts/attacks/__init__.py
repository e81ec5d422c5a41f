"""Attacks on this project's own promises, one a file: what each adversary can find out."""
