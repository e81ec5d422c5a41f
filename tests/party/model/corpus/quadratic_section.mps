* optimum 2.25
NAME corpus
OBJSENSE MAX
ROWS
 N profit
 L hours
COLUMNS
 x profit 3 hours 1
RHS
 rhs hours 99
QSECTION profit
 x x -2
ENDATA
