* optimum 24
NAME          plan
OBJSENSE
    MAX
ROWS
 N  profit
 L  hours
 L  own part
COLUMNS
    pale ale  profit             3.0   hours              1.0
    pale ale  own part           1.0
    stout     profit             2.0   hours              1.0
RHS
    RHS       hours            100.0   own part           4.0
ENDATA
