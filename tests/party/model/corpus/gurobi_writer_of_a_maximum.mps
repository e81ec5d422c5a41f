* optimum 30
NAME week
* Max problem is converted into Min one
ROWS
 N obj
 L hours
COLUMNS
 x obj -3 hours 1
 y obj -2 hours 2
RHS
 RHS hours 10
ENDATA
