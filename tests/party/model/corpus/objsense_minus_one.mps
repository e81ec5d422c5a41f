* refused: line 4: after OBJSENSE write MAX or MIN
NAME week
OBJSENSE
    -1
ROWS
 N obj
 L hours
COLUMNS
 x obj 3 hours 1
 y obj 2 hours 2
RHS
 RHS hours 10
ENDATA
