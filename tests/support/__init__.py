"""What several tests need: harnesses of queues and wires, peers, places."""
