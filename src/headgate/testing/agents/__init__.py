"""Worlds of agents: real agents with simulated routers, networks, disks and time."""
