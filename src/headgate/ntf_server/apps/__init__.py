"""The server for apps: they register devices, and subscribe to the notifiers of their queues.

`session` speaks the protocol on one connection, `commands` carries out what is asked, `server`
listens.
"""
