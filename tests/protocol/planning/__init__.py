"""Tests of `protocol.planning`."""
