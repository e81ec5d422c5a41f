* refused: the objective, which is the first row of type N, has no values, but 'obj' has
NAME week
OBJSENSE
    MAX
ROWS
 N spare
 N obj
 L hours
COLUMNS
 x obj 3 hours 1
 y obj 2 hours 2
RHS
 RHS hours 10
ENDATA
