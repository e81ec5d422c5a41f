"""Tests of `protocol.runtime`."""
