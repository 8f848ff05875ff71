"""Programs of workers, each written as the documentation of its library has it.

Each is a process of its own: `PROGRAM add HOST PORT COUNT`, `PROGRAM work HOST PORT CONSUMER` or
`PROGRAM hang HOST PORT CONSUMER`. Orders are numbered, and those with an even number are of the
kind `express`. A worker prints the number of each order that it is given, on a line of its own; one
that hangs never acknowledges the first.
"""
