* optimum 30
NAME week
OBJSENSE
 MAX
ROWS
 N obj
 L hours
RHS
 RHS hours 10
COLUMNS
 x obj 3 hours 1
 y obj 2 hours 2
ENDATA
