"""Several workers as one Redis server: what they say to one another, and who carries out what."""
