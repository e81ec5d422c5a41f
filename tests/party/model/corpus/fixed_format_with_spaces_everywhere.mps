* optimum 14
NAME          corpus
OBJSENSE
 MAX
ROWS
 N  profit
 L  hours
 L  my oven
COLUMNS
    an x      profit             3.0   hours              1.0
    an x      my oven            1.0
    a y       profit             2.0   hours              2.0
RHS
    a rhs     hours             99.0   my oven            4.0
BOUNDS
 UP bnd       a y                1.0
ENDATA
