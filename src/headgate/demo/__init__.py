"""The demo of `make run`: a scene with clients of all wires against a router."""
