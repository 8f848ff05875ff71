"""Redis's protocol, RESP2 and RESP3: channels, patterns, keys, users, a cluster of one."""
