* refused: has no objective: under ROWS there is no row of type N
NAME corpus
ROWS
 L hours
COLUMNS
 x hours 1
RHS
 rhs hours 99
ENDATA
