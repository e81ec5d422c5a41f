* optimum 30
NAME corpus
OBJSENSE: MAX
ROWS
 N profit
 L hours
COLUMNS
 x profit 3 hours 1
 y profit 2 hours 2
RHS
 rhs hours 99
ENDATA
