* refused: line 12: a bound has no number or no vector; write both
NAME plan
ROWS
 N cost
 L hours
COLUMNS
 1 cost -3 hours 1
 2 cost 2 hours -2
RHS
 rhs hours 100
BOUNDS
 FR 1 2
ENDATA
