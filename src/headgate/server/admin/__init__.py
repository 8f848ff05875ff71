"""The admin port: state, metrics, sinks of the pipeline, and who may ask."""
