* refused: says maximise only in a comment or in its name, and would be read as minimise
NAME week MAXIMIZE
ROWS
 N obj
 L hours
COLUMNS
 x obj 3 hours 1
 y obj 2 hours 2
RHS
 RHS hours 10
ENDATA
