* refused: line 11: QSECTION must name the objective
NAME corpus
OBJSENSE MAX
ROWS
 N profit
 L hours
COLUMNS
 x profit 3 hours 1
RHS
 rhs hours 99
QSECTION hours
 x x 2
ENDATA
