"""How a batch of commands becomes one transaction: its state, its undo, what it asks the store."""
