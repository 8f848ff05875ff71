"""Bytes of RESP: requests, replies, and the frames in which messages arrive."""
