"""Values that everything in the core speaks of. This package imports nothing else of the core."""
