"""Commitments to quotas and payments that only their owners know, and proofs about them.

`group` has the points, `range_proof` the proof that committed numbers are small, `layout` which
numbers are committed, `exchange` the check of all members' commitments together.
"""
