* refused: does not say whether to maximise: GLPK writes that into no MPS file
* Problem:    week
* Class:      LP
* Rows:       2
* Columns:    2
* Non-zeros:  4
* Format:     Fixed MPS
*
NAME          week
ROWS
 N  profit
 L  hours
COLUMNS
    x         profit               3   hours                1
    y         profit               2   hours                2
RHS
    RHS1      hours               10
ENDATA
