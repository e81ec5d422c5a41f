* optimum 22
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
    y profit 2 hours 1
    M2 'MARKER' 'INTEND'
RHS
    RHS hours 100 own 2.5
BOUNDS
 PL BND x
 PL BND y
ENDATA
