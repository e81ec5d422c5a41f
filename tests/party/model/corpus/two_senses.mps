* refused: line 5: the file says both MAX and MIN
NAME corpus
OBJSENSE
 MAX
OBJSENSE MIN
ROWS
 N profit
 L hours
COLUMNS
 x profit 3 hours 1
RHS
 rhs hours 99
ENDATA
