* refused: line 15: rows with products of columns (QCMATRIX) are not supported
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
QCMATRIX own
    x x 1
ENDATA
