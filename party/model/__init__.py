"""The private model: reading it, and the best response to prices.

`model_file` reads files, with `lp_text` and `mps_text` for their formats, and `modelling_tools`
reads models in memory. Both give a `linear_program`; `company_model` arranges it for an agreement.
`best_response` solves it, `solver_process` in a process of its own, with a time limit.
Never here: noise, messages, or anything that leaves the party.
"""
