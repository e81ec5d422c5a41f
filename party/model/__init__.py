"""The private model: reading it, and the best response to prices.

`model_file` reads MPS and LP files, `modelling_tools` models in memory; `company_model` is the
record. `best_response` solves it, `solver_process` in a process of its own, with a time limit.
Never here: noise, messages, or anything that leaves the party.
"""
