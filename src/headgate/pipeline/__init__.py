"""The data pipeline on Spark: what the router makes, as tables; and its expressions, as columns.

Only this package imports PySpark. Every step takes DataFrames and plain options, so the same
functions run on a laptop, a cluster and Spark Connect; `session.py` alone builds a session.
"""
