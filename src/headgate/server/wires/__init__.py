"""A listener for each wire: it accepts clients and puts a session between socket and router."""
