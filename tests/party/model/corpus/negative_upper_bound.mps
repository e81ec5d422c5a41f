* refused: line 16: the column 'x' has a negative upper bound and no lower bound
NAME plan
OBJSENSE
    MAX
ROWS
 N profit
 L hours
 L own
COLUMNS
    x profit 3 hours 1
    x own 1
    y profit 2 hours 1
RHS
    RHS hours 100 own 4
BOUNDS
 UP BND x -2
ENDATA
