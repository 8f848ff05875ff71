"""A client of notification servers: what an app asks of one.

`link` is one connection; `greeting` is how it begins.
"""
