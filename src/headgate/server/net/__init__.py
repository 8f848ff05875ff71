"""Sockets: listening, TLS, and connections that read no faster than they are served."""
