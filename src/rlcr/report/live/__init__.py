"""`rlcr view`: the page of the report, served to this machine alone and kept current while runs are written.

    problems   where the problem of an id is in its file
    query      what a reader asks for, checked
    search     words in answers and questions, found little by little
    answers    which answers that is, in order, page by page
    watching   two threads: one reads what is new, one makes the page again
    server     HTTP on 127.0.0.1, reading only

The browser holds one page of answers at a time, the server a row of numbers for each record; texts are read
from the files when they are looked at. `live.js` asks the server every so often whether anything is new.
"""
