* refused: line 15: the row 'own' has two right-hand sides
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
    RHS own 5
ENDATA
