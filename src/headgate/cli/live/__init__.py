"""Commands that ask a running router, over its admin port."""
