"""Messages of agents to one another through queues: addresses, links, envelopes, the ratchet.

The router sees only their length. From the outside in: `envelope` seals a body for one queue;
`agent_envelopes` has the kinds of such bodies; `ratchet` encrypts between two connected agents;
`agent_messages` has their messages. By `queue_address`, `links`, `short_links` and `link_data` they
find one another. Nothing here uses random numbers or a clock: fresh keys and nonces are arguments.
"""
