"""The three wires of the router, which do not know each other. A wire turns bytes into commands of
the core, and effects into bytes. It opens no socket and asks no clock: the server hands it both.

Beside them `ntf`, the protocol of notification servers, which is made of parts of SMP's codec.
"""
