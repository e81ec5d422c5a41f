"""Tests of `protocol.session`."""
