"""Mutation: small changes of the code, one at a time, that a test must notice."""
