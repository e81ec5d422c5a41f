"""After the last round: the company's plan within its quota, the result files, the report.

Everything here is un-noised and private, unless its name says public.
Never here: anything that is sent to others.
"""
