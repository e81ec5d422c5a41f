"""What a session came to: from the transcript to quotas, payments and certificate.

Every member and auditor gets the same, bit for bit. If only totals are public, each member
computes its own quota and payment here. Never here: the live session.
"""
