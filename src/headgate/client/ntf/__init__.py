"""A client of notification servers, for apps.

`link` is one connection; `greeting` is its handshake.
"""
