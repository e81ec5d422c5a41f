* optimum 30
* SCIP STATISTICS
*   Problem name     : week
*   Variables        : 2 (0 binary, 0 integer, 0 implicit integer, 2 continuous)
*   Obj. scale       : 1
*   Obj. offset      : 0
NAME          week
OBJSENSE
  MAX
ROWS
 N  Obj
 L  hours
COLUMNS
    x         Obj                   3  hours                 1
    y         Obj                   2  hours                 2
RHS
    RHS       hours                10
BOUNDS
 PL Bound     x
 PL Bound     y
ENDATA
