"""Tests of `protocol.pricing`."""
