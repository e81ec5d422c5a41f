"""Tests, in the folders of what they test. `builders` makes agreements and signed messages."""
