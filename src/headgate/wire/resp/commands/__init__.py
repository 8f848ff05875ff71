"""The commands of Redis that are answered, a module for each family."""
