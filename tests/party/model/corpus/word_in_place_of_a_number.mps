* refused: line 10: a number is expected
NAME plan
OBJSENSE
    MAX
ROWS
 N profit
 L hours
 L own
COLUMNS
    x profit three hours 1
    x own 1
    y profit 2 hours 1
RHS
    RHS hours 100 own 4
ENDATA
