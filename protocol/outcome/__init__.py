"""The outcome of a session: from the transcript to prices, quotas, payments and certificate.

`replay` computes all rounds again, and `outcome` has the result, equal bit for bit for everyone.
`allocation_rule` maps demands to quotas: `quota` applies it to all members, `private_quota` to one
member, if only totals are public. Never here: the live session.
"""
