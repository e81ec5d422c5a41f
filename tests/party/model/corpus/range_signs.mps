* optimum 18
NAME corpus
OBJSENSE MAX
ROWS
 N profit
 L hours
 E up
 E down
 L most
 G least
COLUMNS
 x profit 3 hours 1
 x up 1
 y profit -1 hours 1
 y down 1
 z profit -1 hours 1
 z most 1
 v profit -1 hours 1
 v least 1
RHS
 rhs hours 99 up 3
 rhs down 2 most 4
 rhs least 1
RANGES
 rng up 4 down -2
 rng most -2 least -5
ENDATA
