* refused: line 8: a marker is INTORG or INTEND
NAME corpus
OBJSENSE MAX
ROWS
 N profit
 L hours
COLUMNS
 M1 'MARKER' 'SOSORG'
 x profit 3 hours 1
 M1 'MARKER' 'SOSEND'
RHS
 rhs hours 99
ENDATA
