"""The router's expressions on Spark: as columns, and as a join that routes many to many."""
