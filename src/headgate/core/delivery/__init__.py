"""What all ways to subscribe share: who listens to an address, how much may be under way to it."""
