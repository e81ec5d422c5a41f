* refused: line 16: there is text after ENDATA
NAME plan
OBJSENSE
    MAX
ROWS
 N profit
 L hours
 L own
COLUMNS
    x profit 3 hours 1
    x own 1
    y profit 2 hours 1
RHS
    RHS hours 100 own 4
ENDATA
ROWS
