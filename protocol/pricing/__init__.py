"""How prices move: from the totals of a round to the next prices, the same bits everywhere.

`rule` chooses the rule of the agreement, `subgradient` has the theorem's step, `center` the centre
rule and its certificate. Never here: messages, or sums whose order depends on the machine.
"""
