* refused: line 3: a section must begin before this line
NAME corpus
SENSE MAX
ROWS
 N profit
 L hours
COLUMNS
 x profit 3 hours 1
RHS
 rhs hours 99
ENDATA
