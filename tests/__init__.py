"""Tests, in the folders of what they test. `kit` is what they are made of."""
