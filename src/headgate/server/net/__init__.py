"""Sockets: listening, TLS, and connections that read no faster than their session works."""
