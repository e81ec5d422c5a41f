* optimum 32.5
* FICO Xpress v9.9.1, Community
* Written from user model (presolvestate=0x480061)
NAME          plan
OBJSENSE  MAXIMIZE
ROWS
 N  profit
 L  hours
 L  band
 E  balance
COLUMNS
    bread             profit            3
    bread             hours             1
    bread             band              1
    cake[big,2]       profit            5
    cake[big,2]       hours             2
    cake[big,2]       balance           1
    ovens             profit            -2.5
    ovens             hours             0.5
    ovens             band              -1
    lorries           profit            4
    lorries           hours             3
    open              profit            -1
    open              balance           -2
    stock             profit            0.25
    stock             balance           1
    trade             profit            1
    trade             band              1
RHS
    RHS               profit            -7
    RHS               hours             10
    RHS               band              3.5
RANGES
    RNG               band              2
BOUNDS
 UP BND               bread             4
 LI BND               ovens             -0
 UI BND               lorries           2
 BV BND               open
 UP BND               stock             1.5
 LO BND               stock             -3
 UP BND               trade             -0.75
 MI BND               trade
ENDATA
