"""Several processes as one router: a supervisor, and the workers that it starts.

A router of one process imports none of this.
"""
