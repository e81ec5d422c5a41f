* optimum 32.5
NAME          COPTPROB
OBJSENSE
    MAX
ROWS
 N  __OBJ___
 L  hours
 L  band
 E  balance
COLUMNS
    bread        __OBJ___  3
    bread        hours     1
    bread        band      1
    cake[big,2]  __OBJ___  5
    cake[big,2]  hours     2
    cake[big,2]  balance   1
    MARKER    'MARKER'                 'INTORG'
    ovens        __OBJ___  -2.5
    ovens        hours     0.5
    ovens        band      -1
    lorries      __OBJ___  4
    lorries      hours     3
    open         __OBJ___  -1
    open         balance   -2
    MARKER    'MARKER'                 'INTEND'
    stock        __OBJ___  0.25
    stock        balance   1
    trade        __OBJ___  1
    trade        band      1
RHS
    RHS       __OBJ___  -7
    RHS       hours     10
    RHS       band      3.5
RANGES
    RANGE     band      2
BOUNDS
 UP BOUND     bread        4
 LI BOUND     ovens        0
 UP BOUND     lorries      2
 UP BOUND     open         1
 LO BOUND     stock        -3
 UP BOUND     stock        1.5
 MI BOUND     trade
 UP BOUND     trade        -0.75
ENDATA
