"""The journal as a Spark data source: batch and stream, from files or over the admin port."""
