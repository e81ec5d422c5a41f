"""Tests of `protocol.outcome`."""
