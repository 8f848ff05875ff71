"""How a batch of commands becomes one transaction: its state, its undo, its requests to the
store."""
