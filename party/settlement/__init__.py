"""After the last round: the company's plan within its quota, the result files, the report.

`settle` computes the plan, `result_files` writes the files, `private_report` builds the page.
All numbers here are un-noised and private, unless a name says public.
Never here: anything that is sent to others.
"""
