"""SimpleX's messaging protocol: exclusive queues and services, in blocks of 16 KiB."""
