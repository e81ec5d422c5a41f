"""Tests of `party.ledger`."""
