"""Tests of what all parties agree on."""
