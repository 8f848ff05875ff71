"""Logins: tokens of clients, connections that are not known yet, waits after failures."""
