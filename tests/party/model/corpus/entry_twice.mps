* refused: line 11: column 'x' has two values in the row 'hours'
NAME plan
OBJSENSE
    MAX
ROWS
 N profit
 L hours
 L own
COLUMNS
    x profit 3 hours 1
    x hours 1
    y profit 2 hours 1
RHS
    RHS hours 100 own 4
ENDATA
