* optimum 30
* Problem:    week
* Class:      LP
* Format:     Free MPS
*
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
ENDATA
