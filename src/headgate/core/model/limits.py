"""The limits of the router, each with its unit and its reason."""

from __future__ import annotations

from headgate.core.model.value import value

KiB = 1024
MiB = 1024 * KiB


@value
class Limits:
    """Reaching a limit makes a `LimitReached` fact and an error that names it."""

    turn_commands: int = 4096
    """Commands of one turn; the rest is the next turn's. With a distant store a small limit wastes
    the round trip: 512 gave a quarter of the throughput. Where the store is in the same process a
    turn takes 512 at most."""

    turn_bytes: int = 8 * MiB
    """Bytes of bodies in one turn, about, so that a transaction, and the memory it needs, stays
    small. A single larger message is a turn of its own."""

    turn_proofs: int = 256
    """Commands of one turn whose signatures have to be checked. Each takes about a tenth of a
    millisecond, in which nothing else is served."""

    turn_confirms: int = 8192
    """Confirmations in one turn, about, at ten microseconds each; one command may have many of
    them. The memory of all of them is freed together."""

    turn_looks: int = 10_000
    """Messages for which a turn seeks a consumer of a shared queue, at about ten microseconds each;
    the rest is the next turn's. When a consumer changes its subscriptions, all messages put aside
    are looked at again."""

    turn_expression_bytes: int = 2048
    """Bytes of new expressions that a turn compiles, at about 15 microseconds each; a request with
    more goes on in the next turn, and is answered when all are compiled."""

    turn_returns: int = 1000
    """Messages that a turn takes back from consumers that left, with the closing of queues for
    closed sessions; the rest is the next turn's."""

    pull_messages: int = 1000
    """Messages of one queue that a reader gets at once, whatever it requests."""

    pull_bytes: int = 8 * MiB
    """Bytes of one queue that a reader gets at once, about."""

    range_messages: int = 5000
    """Messages in the answer for a range of a queue; more is refused, and has to be requested in
    pages."""

    range_bytes: int = 32 * MiB
    """Bytes of them, about, unless it is one message."""

    readers_per_app: int = 10_000
    """Readers of one app. They are removed an hour after their last use."""

    readers: int = 100_000
    """Readers of all apps of all queues, at about two kilobytes each."""

    inbox_commands: int = 65_536
    """Commands waiting for their turn in one shard. Beyond it a session is refused, since commands
    would otherwise pile up in memory while the store is slow."""

    inbox_bytes: int = 128 * MiB
    """Bytes of bodies waiting for their turn in one shard."""

    sessions: int = 100_000
    """Sessions in all. Each is a file descriptor and some memory. A tenth of them is reserved for
    each wire with a listener, so that the clients of one cannot shut out those of the others."""

    body_bytes: int = 16 * MiB
    """The body of one message. Larger data belongs elsewhere, with its name in a message."""

    bulk_bytes: int = 16 * MiB
    """One argument of a Redis client's request, such as the body of a message."""

    arguments: int = 131_072
    """Arguments of one request of a Redis client: each is an object, however short. A client that
    reconnects names all of its channels in one SUBSCRIBE."""

    command_steps: int = 25_000
    """Work of one command of a Redis client, or of one transaction, in steps of about a microsecond
    in which nothing else is served: twenty thousand keys, ten thousand of them with values, five
    thousand short commands. Commands that answer in parts, as SUBSCRIBE, let others be served in
    between instead."""

    reply_bytes: int = 32 * MiB
    """The answer to one command of a Redis client, or to one transaction, which is made in one
    piece: a value of `bulk_bytes`, and another one."""

    request_bytes: int = 64 * MiB
    """One request of a Redis client, which is held until it is complete."""

    event_bytes: int = 64 * MiB
    """One event of a BlazingMQ client, which is held until it is complete."""

    message_properties: int = 255
    """Properties of one message; more than 255 do not fit into one of BlazingMQ."""

    properties_bytes: int = 64 * KiB
    """Names and values of the properties of one message."""

    json_bytes: int = 256 * KiB
    """Bodies from which properties are read. A longer one is accepted without them: parsing it
    would hold up other clients."""

    queues_per_session: int = 1_000_000
    """Queues one session may subscribe to one by one."""

    opens_per_session: int = 10_000
    """Shared queues one session may have open, each of their apps counted."""

    channels_per_session: int = 100_000
    """Channels one session may subscribe to."""

    channels: int = 1_000_000
    """Channels with a subscriber, in all."""

    name_bytes: int = 8 * KiB
    """The name of a channel, a pattern or a key; a rule of a user. Parsing a pattern of a megabyte,
    or searching such a name, would hold up all clients."""

    patterns_per_session: int = 100_000
    """Patterns one session may subscribe to."""

    patterns: int = 1_000_000
    """Distinct patterns, in all."""

    slow_patterns_per_session: int = 250
    """Patterns that the index cannot file, such as ``*[ab]``, or with classes between two stars,
    that one session may subscribe to. Each counts as often as it has such classes, at least
    once."""

    slow_patterns: int = 1000
    """The same, in all: a publish to a new channel tries each of them."""

    users: int = 10_000
    """Users of Redis clients, the default one included."""

    rules_per_user: int = 1000
    """Passwords, rules on commands, and patterns of keys and channels of one user: a command is
    compared with each in turn."""

    keys: int = 1_000_000
    """Keys in all databases. They accompany the channels; this is not a place to store data."""

    keys_bytes: int = 256 * MiB
    """Names and values of all keys."""

    key_expiries: int = 2000
    """Expired or flushed keys that a sweep removes before others get a turn; then it goes on."""

    subscriptions_per_app: int = 100_000
    """Subscriptions of all sessions to one app of a queue."""

    expressions_per_app: int = 10_000
    """Distinct expressions in one app of a queue. Most are never evaluated, but a message may match
    the index keys of all, and is then tested against all, at up to four microseconds each."""

    expression_bytes: int = 128
    """UTF-8 bytes of one expression, as in BlazingMQ."""

    expression_operators: int = 64
    """Operators of one expression. A property reference is not an operator."""

    backlogs: int = 100_000
    """Exclusive queues whose record and first messages are kept in memory."""

    backlogs_bytes: int = 64 * MiB
    """Bytes of the first messages kept in memory, of all queues."""

    heads: int = 8
    """First messages kept in memory of an exclusive queue."""

    heads_bytes: int = 64 * KiB
    """Bytes of those; the very first is kept whatever its size."""

    notices: int = 100_000
    """Notices that wait for notifiers, in all."""

    notices_per_notifier: int = 32
    """Notices that wait for one notifier; the oldest are dropped first. A notifier learns that
    there are messages, not how many."""

    remembered_ids: int = 100_000
    """Message ids that one shared queue remembers, to recognise a repeated one."""

    bodies_bytes: int = 64 * MiB
    """Bodies of shared queues kept in memory; others are read when they are delivered."""

    sweep_queues: int = 500
    """Queues of a service's sweep that one turn handles."""

    expiries: int = 1000
    """Expired messages that one turn removes."""

    mailbox_bytes_soft: int = 8 * MiB
    """Beyond it a session is slow, and its clock starts."""

    mailbox_bytes_hard: int = 32 * MiB
    """Beyond it publishers to the session wait."""

    # S002-59: the limit for all mailboxes together is a setting.
    budget_bytes: int = 128 * MiB
    """Bytes in all mailboxes; beyond it publishers to slow sessions wait."""

    input_bytes: int = 256 * MiB
    """Bytes of incomplete requests, of all sessions of a wire. A session that exceeds it is
    closed."""

    transaction_commands: int = 65_536
    """Commands that one session queues for a transaction; `command_steps` allows fewer."""

    transaction_bytes: int = 64 * MiB
    """Bytes of these commands."""

    client_name_bytes: int = 1024
    """The name that a client gives itself, or its library."""

    watched_keys: int = 10_000
    """Keys that one session watches for a transaction."""

    answer_bytes: int = 1 * MiB
    """Answers that a session has not read. Beyond it no more commands of it are read."""

    answers_bytes: int = 128 * MiB
    """Answers that all sessions of Redis clients have not read. Beyond it the sessions with the
    most are closed."""

    handshakes: int = 1024
    """Clients of one listener that have not shown who they are: in a TLS handshake, or before the
    required hello or AUTH. Beyond it the client that is silent longest is closed, of the address
    with the most. Half of the sessions that are possible, if that is less."""

    handshakes_per_address: int = 256
    """Such clients of one address, or of one IPv6 network."""

    auth_failures: int = 10
    """Wrong passwords in one session; then it is closed."""

    recipient_keys: int = 8
    """Keys of one recipient of an exclusive queue. A command is tried with all of them, at up to a
    third of a millisecond each."""

    creations_per_minute: int = 10_000
    """Queues that one session may make in a minute."""

    publish_frames: int = 1000
    """Frames that the publish log collects before it is flushed early."""

    publish_bytes: int = 1 * MiB
    """Bytes that the publish log collects before it is flushed early."""

    outbox_bytes: int = 256 * MiB
    """Facts in the store that are not sealed into the journal yet, about. Beyond it messages are
    refused, since they could not be journalled."""

    sinks: int = 100_000
    """Sinks whose last batch is remembered. All of them are in memory."""

    sink_messages: int = 20_000
    """Messages of one batch of a sink, or of a piece of it: one turn, for which everybody waits."""

    sink_bytes: int = 32 * MiB
    """Bytes of the same, which is one transaction: a small multiple of a turn's."""

    sink_staged_bytes: int = 256 * MiB
    """Bytes that one sink has staged and not committed: those of a batch, and of failed
    attempts."""

    staged_bytes: int = 1024 * MiB
    """Bytes that all sinks have staged; they are files in the state directory."""

    journal_facts_per_second: int = 1000
    """Facts of one rare kind in one second that the journal records one by one; the rest is
    counted."""

    journal_channels_per_second: int = 1000
    """Channels that the journal counts by name in one second; the rest is one row."""

    log_lines_per_second: int = 200
    """Log lines of one kind in one second; the rest is counted in one line."""

    status_rows: int = 1000
    """Rows of one list in /status.json."""
