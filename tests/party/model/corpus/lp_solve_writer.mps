* optimum 30
*<meta creator='lp_solve v5.5'>
*<meta rows=1>
*<meta columns=2>
*<meta equalities=0>
*<meta integers=0>
*<meta origsense='MAX'>
*
NAME
ROWS
 N obj
 L hours
COLUMNS
 x obj -3 hours 1
 y obj -2 hours 2
RHS
 RHS hours 10
ENDATA
