* refused: line 12: a number is expected where there is another word
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
 RHS hours 1_0
ENDATA
