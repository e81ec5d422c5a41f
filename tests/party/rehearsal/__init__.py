"""Tests of `party.rehearsal`."""
