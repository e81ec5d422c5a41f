* refused: line 13: there are two columns named 'x'
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
    x own 2
RHS
    RHS hours 100 own 4
ENDATA
