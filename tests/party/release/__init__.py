"""Tests of `party.release`."""
