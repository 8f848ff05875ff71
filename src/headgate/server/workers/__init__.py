"""Several processes as one router: a supervisor, and workers that it starts.

A router of one process imports nothing of this."""
