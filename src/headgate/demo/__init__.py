"""What `make run` shows: a scene with clients of all wires against a router."""
