"""A client of SMP routers: a link, requests, a recipient's keys, a service's certificate.

::

    async with await Link.connect(RouterAddress.parse(text), handler) as link:
        new = requests.new_queue()
        queue = new.made(await link.ask(new.request))
        await link.ask_all([requests.subscribe(id, key) for id, key in others])

`handler` is a `LinkHandler`: it gets events, late answers and the loss of the link. A lost link
does not come back; `headgate.client.smp.failures` classifies each failure.
"""
