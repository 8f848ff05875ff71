"""The three wires of the router, which do not know each other. A wire turns bytes into commands of
the core, and effects into bytes. It opens no socket and reads no clock: the server provides both.

Beside them is `ntf`, the protocol of notification servers, built on parts of SMP's codec.
"""
