"""The private model: reading it, and the best response to prices.

`model_file` reads files, with `lp_text` and `mps_text` for their formats, `modelling_tools` models
in memory. `linear_program` is what they give, `company_model` what the rest works with. `best_response` solves it, `solver_process` in a process of its own, with a time limit.
Never here: noise, messages, or anything that leaves the party.
"""
