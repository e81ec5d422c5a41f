"""How prices move: from the totals of a round to the next prices, the same bits everywhere.

`rule` chooses, `subgradient` has the steps of the paper, `center` the centre rule and its
certificate. Never here: messages, or sums whose order depends on the machine.
"""
