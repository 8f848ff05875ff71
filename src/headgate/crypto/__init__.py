"""Keys, boxes and proofs of SMP: who signs, who can read, who may command."""
