"""Several workers as one Redis server: their frames, and the placing of commands on them."""
