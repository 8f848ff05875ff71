"""Keys, boxes and proofs of SMP: signing, encryption, authorization of commands."""
