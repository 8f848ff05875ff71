"""The notification server as a process: what does I/O around the decisions of `headgate.notify`.

`records` is what it remembers, `apps` serves those who register devices and subscribe, `routers`
has sessions with routers, and `pushing` brings pushes to providers. `server.NtfServer` joins them.
"""
