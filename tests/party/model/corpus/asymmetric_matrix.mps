* refused: line 17: QMATRIX must be symmetric
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
QMATRIX
    x y 1
    y x 2
ENDATA
