"""Plain values that all of the core uses. This package imports nothing else of the core."""
