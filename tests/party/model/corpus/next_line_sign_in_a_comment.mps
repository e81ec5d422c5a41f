* optimum 30
NAME week
OBJSENSE
    MAX
ROWS
 N obj
 L hours
COLUMNS
 x obj 3 hours 1
 y obj 2 hours 2
RHS
 RHS hours 10
BOUNDS
* last year UP BND x 1
ENDATA
