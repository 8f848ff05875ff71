"""Every bound of the router, named, with its unit and its reason."""

from __future__ import annotations

from headgate.core.model.value import value

KiB = 1024
MiB = 1024 * KiB


@value
class Limits:
    """Reaching one makes a `LimitReached` fact and an error that names it."""

    turn_commands: int = 4096
    """A turn takes at most this many commands; the rest is the next turn. With a distant
    store a small cap wastes the round trip: 512 gave a quarter of the throughput. Where the
    store is in the same process a turn takes 512 at most."""

    turn_bytes: int = 8 * MiB
    """A turn takes at most about this many bytes of bodies, so that a transaction, and the
    memory it needs, stays small. A single larger message is a turn of its own."""

    turn_proofs: int = 256
    """A turn takes at most this many commands whose signatures it has to check. Each takes about a
    tenth of a millisecond, in which nobody else is served."""

    turn_confirms: int = 8192
    """A turn takes about this many confirmations, at ten microseconds each; many of them come in
    one command. What a turn did is let go of together."""

    turn_looks: int = 10_000
    """For so many messages a turn seeks a consumer of a shared queue, at about ten microseconds
    each; the rest is the next turn. A consumer that changes its subscriptions has everything
    looked at again that nobody wanted."""

    turn_expression_bytes: int = 2048
    """So many bytes of new expressions a turn compiles, at about 15 microseconds each; a request
    with more goes on in the next turn, and is answered when all are compiled."""

    turn_returns: int = 1000
    """So many messages a turn takes back from consumers that left, and closes queues for sessions
    that are gone; the rest is the next turn."""

    pull_messages: int = 1000
    """Messages of one queue that a reader is given at once, whatever it asks for."""

    pull_bytes: int = 8 * MiB
    """Bytes of one queue that a reader is given at once, about."""

    range_messages: int = 5000
    """Messages that one look at a range of a queue tells; more is refused, and has to be asked for
    in pages."""

    range_bytes: int = 32 * MiB
    """Bytes of them, about, unless it is one message."""

    readers_per_app: int = 10_000
    """Names under which messages of one app are fetched. They are forgotten an hour after they were
    last used."""

    readers: int = 100_000
    """Those names of all apps of all queues: one takes about two kilobytes."""

    inbox_commands: int = 65_536
    """Commands waiting for their turn in one shard. Above it a session is refused, since
    what the store cannot keep up with would otherwise pile up in memory."""

    inbox_bytes: int = 128 * MiB
    """Bytes of bodies waiting for their turn in one shard."""

    sessions: int = 100_000
    """Sessions in all. Each is a file descriptor and some memory. A tenth of them is kept for each
    wire that listens, so that the clients of one cannot shut out those of the others."""

    body_bytes: int = 16 * MiB
    """The body of one message. Larger data belongs beside the router, its name in a message."""

    bulk_bytes: int = 16 * MiB
    """One argument of a Redis client's request, as the body of a message is one."""

    arguments: int = 131_072
    """Arguments of one request of a Redis client: each is an object, however short. A client that
    comes back names all of its channels in one SUBSCRIBE."""

    command_steps: int = 25_000
    """Work of one command of a Redis client, or of one transaction, in steps of about a
    microsecond in which nobody else is served: twenty thousand keys, ten thousand of them with
    values, five thousand short commands. What answers in parts, as SUBSCRIBE does, takes turns
    with others instead."""

    reply_bytes: int = 32 * MiB
    """The answer to one command of a Redis client, or to one transaction, which is made in one
    piece: a value of `bulk_bytes`, and another one."""

    request_bytes: int = 64 * MiB
    """One request of a Redis client, which is held until it is whole."""

    event_bytes: int = 64 * MiB
    """One event of a BlazingMQ client, which is held until it is whole."""

    message_properties: int = 255
    """Properties of one message; more than 255 do not fit into one of BlazingMQ."""

    properties_bytes: int = 64 * KiB
    """Names and values of the properties of one message."""

    json_bytes: int = 256 * KiB
    """Of bodies out of which properties are read. A longer one is accepted without them: others
    would wait while it is parsed."""

    queues_per_session: int = 1_000_000
    """Queues one session may subscribe to one by one."""

    opens_per_session: int = 10_000
    """Shared queues one session may have open, each of their apps counted."""

    channels_per_session: int = 100_000
    """Channels one session may subscribe to."""

    channels: int = 1_000_000
    """Channels with a subscriber, in all."""

    name_bytes: int = 8 * KiB
    """The name of a channel, a pattern or a key; a rule of a user. Taking apart a pattern of a
    megabyte, or searching a name of one, would hold everybody up."""

    patterns_per_session: int = 100_000
    """Patterns one session may subscribe to."""

    patterns: int = 1_000_000
    """Distinct patterns, in all."""

    slow_patterns_per_session: int = 250
    """Patterns that nothing leads to, such as ``*[ab]``, or with classes between two stars, that
    one session may subscribe to. Each counts as often as it has such classes, at least once."""

    slow_patterns: int = 1000
    """The same, in all: a publish to a new channel asks each of them."""

    users: int = 10_000
    """Users of Redis clients, the default one included."""

    rules_per_user: int = 1000
    """Passwords, rules on commands, and patterns of keys and channels of one user: a command is
    compared with one after another."""

    keys: int = 1_000_000
    """Keys in all databases. They accompany the channels; this is not a place to store data."""

    keys_bytes: int = 256 * MiB
    """Names and values of all keys."""

    key_expiries: int = 2000
    """Keys that a sweep handles, whose time is over or that were flushed, before others get their
    turn; then it goes on."""

    subscriptions_per_app: int = 100_000
    """Subscriptions of all sessions to one app of a queue."""

    expressions_per_app: int = 10_000
    """Distinct expressions in one app of a queue. Most are never asked, but a message may hold what
    all of them ask for, and is then tested against all, at up to four microseconds each."""

    expression_bytes: int = 128
    """UTF-8 bytes of one expression, as in BlazingMQ."""

    expression_operators: int = 64
    """Operators of one expression. A property reference is not an operator."""

    backlogs: int = 100_000
    """Exclusive queues whose record and first messages are kept in memory."""

    backlogs_bytes: int = 64 * MiB
    """Bytes of the first messages that are kept of all of them."""

    heads: int = 8
    """First messages kept in memory of an exclusive queue."""

    heads_bytes: int = 64 * KiB
    """Bytes of those; the very first is kept whatever its size."""

    notices: int = 100_000
    """Notices that wait for notifiers, in all."""

    notices_per_notifier: int = 32
    """Notices that wait for one notifier; the oldest go first. It is told that there are
    messages, not how many."""

    remembered_ids: int = 100_000
    """Message ids that one shared queue remembers to recognise a repeated one."""

    bodies_bytes: int = 64 * MiB
    """Bodies of shared queues kept in memory; others are read when they are delivered."""

    sweep_queues: int = 500
    """Queues that one turn handles of a service's sweep."""

    expiries: int = 1000
    """Messages that one turn removes because their time is over."""

    mailbox_bytes_soft: int = 8 * MiB
    """Above it a session is slow, and its clock starts."""

    mailbox_bytes_hard: int = 32 * MiB
    """Above it those who publish to the session wait."""

    # S002-59: of all mailboxes together, and a setting.
    budget_bytes: int = 128 * MiB
    """Bytes in all mailboxes; above it those who publish to slow sessions wait."""

    input_bytes: int = 256 * MiB
    """Bytes of requests that are not whole, of all sessions of a wire. Whoever goes on beyond it
    is closed."""

    transaction_commands: int = 65_536
    """Commands that one session queues for a transaction; `command_steps` allows fewer."""

    transaction_bytes: int = 64 * MiB
    """Bytes of these commands."""

    client_name_bytes: int = 1024
    """A name that a client gives itself, or its library."""

    watched_keys: int = 10_000
    """Keys that one session watches for a transaction."""

    answer_bytes: int = 1 * MiB
    """Answers that a session has not taken. Above it no more commands are read from it."""

    answers_bytes: int = 128 * MiB
    """Answers that all sessions of Redis clients have not taken. Beyond it those are closed that
    left most of them."""

    handshakes: int = 1024
    """Clients of one listener that have not shown who they are: in a TLS handshake, or before the
    hello or the AUTH that they owe. Above it the one that is silent longest goes, of the address
    that has most."""

    handshakes_per_address: int = 256
    """Those of one address, or of one network of IPv6."""

    auth_failures: int = 10
    """Wrong passwords in one session; then it is closed."""

    recipient_keys: int = 8
    """Keys of one recipient of an exclusive queue. A command is tried with all of them, at up to a
    third of a millisecond each."""

    creations_per_minute: int = 10_000
    """Queues that one session may make in a minute."""

    publish_frames: int = 1000
    """Frames that the publish log joins before it is flushed early."""

    publish_bytes: int = 1 * MiB
    """Bytes that the publish log joins before it is flushed early."""

    outbox_bytes: int = 256 * MiB
    """Facts in the store that are not sealed into the journal yet, about. Above it messages
    are refused, since they could not be accounted for."""

    sinks: int = 100_000
    """Sinks whose last batch is remembered. All of them are in memory."""

    sink_messages: int = 20_000
    """Messages of one batch of a sink, or of a piece of it: one turn, for which everybody waits."""

    sink_bytes: int = 32 * MiB
    """Bytes of the same, which is one transaction: a small multiple of a turn's."""

    sink_staged_bytes: int = 256 * MiB
    """Bytes that one sink has staged and not committed: of a batch, and attempts that failed."""

    staged_bytes: int = 1024 * MiB
    """Bytes that all sinks have staged; they are files of the state directory."""

    journal_facts_per_second: int = 1000
    """Facts of one rare kind in one second that the journal tells one by one; the rest is
    counted."""

    journal_channels_per_second: int = 1000
    """Channels that the journal counts by name in one second; the rest is one row."""

    log_lines_per_second: int = 200
    """Log lines of one kind in one second; the rest is counted and said once."""

    status_rows: int = 1000
    """Rows of one list in /status.json."""
