* refused: has no objective: under ROWS there is no row of type N, 'margin' of OBJNAME
NAME corpus
OBJSENSE MAX
OBJNAME
 margin
ROWS
 N profit
 L hours
COLUMNS
 x profit 3 hours 1
RHS
 rhs hours 99
ENDATA
