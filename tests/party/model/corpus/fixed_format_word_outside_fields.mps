* refused: line 8: a line under ROWS is N, L, G or E and one name without spaces
NAME          corpus
OBJSENSE
    MAX
ROWS
 N  profit
 L  hours
 L  my oven
COLUMNS
    x         profit             3.0   hours              1.0
    x         my oven  12345678901234567.5
RHS
    rhs       hours             99.0   my oven            4.0
ENDATA
