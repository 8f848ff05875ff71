"""Clients that live in a world: people with exclusive queues, services, producers and consumers of
shared queues, publishers and listeners of channels. All of them are a little careless."""
