"""Redis Streams over shared queues: keys, ids, fields, and answers that wait for a turn."""
