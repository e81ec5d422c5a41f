"""Tests of `party.settlement`."""
