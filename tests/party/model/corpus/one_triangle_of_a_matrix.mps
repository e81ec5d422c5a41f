* refused: QMATRIX must be symmetric; it has 'x' with 'y' but not 'y' with 'x'
NAME corpus
OBJSENSE MAX
ROWS
 N profit
 L hours
COLUMNS
 x profit 3 hours 1
 y profit 2 hours 1
RHS
 rhs hours 99
QMATRIX
 x x -4
 x y 1
 y y -4
ENDATA
