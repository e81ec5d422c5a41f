"""Tests of `protocol.report`."""
