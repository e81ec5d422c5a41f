"""Tests of `party.ui`."""
