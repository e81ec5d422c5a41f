"""What a session came to: transcript to quotas, payments and certificate.

The same at every member and every auditor, bit for bit. Where only totals are public, one
member computes its own quota and payment here. Never here: the live session.
"""
