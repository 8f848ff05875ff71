"""The paths of the API, version 1, a module for each noun: a function of a request to an answer."""
