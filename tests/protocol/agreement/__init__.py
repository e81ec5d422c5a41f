"""Tests of `protocol.agreement`."""
