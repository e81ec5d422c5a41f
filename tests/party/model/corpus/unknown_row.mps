* refused: line 11: the row 'ovn' is not under ROWS
NAME plan
OBJSENSE
    MAX
ROWS
 N profit
 L hours
 L own
COLUMNS
    x profit 3 hours 1
    x ovn 1
    y profit 2 hours 1
RHS
    RHS hours 100 own 4
ENDATA
