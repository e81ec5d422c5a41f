* optimum 18
NAME week
OBJSENSE
    MAX
ROWS
 N obj
 L hours
 G need
COLUMNS
 x obj 3 hours 1
 x need 1
 y obj 2 hours 2
RHS
 RHS hours 10 need 2
RANGES
 RNG need -2
ENDATA
