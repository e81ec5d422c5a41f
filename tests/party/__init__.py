"""Tests of one company's private side."""
