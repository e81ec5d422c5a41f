* optimum 21
NAME corpus
OBJSENSE MAX
ROWS
 N profit
 L hours
 G least
COLUMNS
 x profit 3 hours 1
 y profit -2 hours 1
 y least 1
 z profit 1 hours 1
 v profit 1 hours 1
 w profit 1 hours 1
RHS
 rhs hours 99 least -3
BOUNDS
 UI bnd x 4
 LI bnd x 1
 FR bnd y
 BV bnd z
 FX bnd v 1
 MI bnd w
 UP bnd w 1
ENDATA
