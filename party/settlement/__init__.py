"""After the last round: the plan within the quota, the result files, the private report.

Never here: anything that is sent to others.
"""
