"""Instances, agreements and local sessions that several commands use."""
