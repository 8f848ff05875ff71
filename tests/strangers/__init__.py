"""Tests that know the router by its documents and its wire alone.

Nothing here imports the router's code: the frames, the expressions and the model are written a
second time, so that a misunderstanding is not shared by both sides.
"""
