* optimum 64
NAME q
OBJSENSE MAX
ROWS
 N p
 L hours
COLUMNS
 x p 12 hours 0.5
 y p 8 hours 1
RHS
 RHS hours 9
QMATRIX
 x x -2
 x y 1
 y x 1
 y y -4
ENDATA
