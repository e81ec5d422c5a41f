* optimum 10
NAME plan
OBJSENSE
    MAX
ROWS
 N profit
 L hours
 L own
 G low
COLUMNS
 x profit 3 hours 1
 x own 1
 y profit 2 hours 2
 y low 1
RHS
 rhs hours 100 own 4
 rhs low -5
BOUNDS
 UP bnd y -1
 LO bnd y -3
ENDATA
