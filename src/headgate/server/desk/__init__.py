"""The desk: what the router shows to the people who run it, as JSON and as a live stream, and what
they may have it do."""
