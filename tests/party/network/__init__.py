"""Tests of `party.network`."""
