"""Tests of `protocol.wire`."""
