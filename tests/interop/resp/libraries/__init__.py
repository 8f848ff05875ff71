"""Programs of workers, each written as the documentation of its library has it.

Each is a process of its own: `PROGRAM add HOST PORT COUNT`, or with `work`, `hang` or `claim`
`PROGRAM work HOST PORT CONSUMER`. Orders are numbered, and those with an even number are of the
kind `express`. A worker prints the number of each order that it is given, on a line of its own; one
that hangs never acknowledges the first. Where a library claims only if it is told to, `claim` tells
it.
"""
