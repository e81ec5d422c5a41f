* refused: line 10: 'nan' is in place of a number
NAME plan
OBJSENSE
    MAX
ROWS
 N profit
 L hours
 L own
COLUMNS
    x profit nan hours 1
    x own 1
    y profit 2 hours 1
RHS
    RHS hours 100 own 4
ENDATA
