"""Tests of `protocol.privacy`."""
