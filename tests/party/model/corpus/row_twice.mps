* refused: line 8: there are two rows named 'hours'
NAME plan
OBJSENSE
    MAX
ROWS
 N profit
 L hours
 L hours
COLUMNS
    x profit 3 hours 1
    x own 1
    y profit 2 hours 1
RHS
    RHS hours 100 own 4
ENDATA
