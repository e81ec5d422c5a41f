"""Tests of `protocol.clearing`."""
