"""After a session: who pays, who is paid, and who may use how much.

`claims` are signed openings of commitments, `settle` adds them up, `use` compares what was used
with what was allowed. Never here: files, or a number that no claim or transcript shows.
"""
