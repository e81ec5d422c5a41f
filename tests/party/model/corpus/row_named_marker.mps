* refused: line 8: the word MARKER marks integers under COLUMNS; rename this row
NAME plan
OBJSENSE
    MAX
ROWS
 N earnings
 L hours
 L MARKER
COLUMNS
 x earnings 3 hours 1
 x MARKER 1
RHS
 rhs hours 10 MARKER 4
ENDATA
