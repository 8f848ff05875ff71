"""Bytes of BMQP: events, control messages in BER or JSON, messages and their properties."""
