"""Tests of `protocol.commitment`."""
