"""Messages of agents to one another through queues: addresses, links, envelopes, the ratchet.

The router sees none of it but its length. From the outside in: `envelope` seals what is sent to one
queue; `agent_envelopes` is what is in it; `ratchet` encrypts what two connected agents say;
`agent_messages` is what they say. `queue_address`, `links`, `short_links` and `link_data` are how
they find one another. Nothing here draws a number or asks a clock: fresh keys and nonces are
arguments.
"""
