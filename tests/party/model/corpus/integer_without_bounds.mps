* refused: the integer column 'x' has no bounds
NAME plan
OBJSENSE
    MAX
ROWS
 N profit
 L hours
 L own
COLUMNS
    M1 'MARKER' 'INTORG'
    x profit 3 hours 1
    x own 1
    M2 'MARKER' 'INTEND'
    y profit 2 hours 1
RHS
    RHS hours 100 own 4
ENDATA
