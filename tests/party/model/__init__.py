"""Tests of `party.model`."""
