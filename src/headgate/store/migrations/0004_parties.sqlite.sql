-- Who may do what with a queue. The ids by which it is found have columns of their own; the rest
-- is one value that comes last, so that what stands before it is read without a long link.
ALTER TABLE queues ADD COLUMN is_full INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queues ADD COLUMN sender BLOB;
ALTER TABLE queues ADD COLUMN notifier BLOB;
ALTER TABLE queues ADD COLUMN link BLOB;
ALTER TABLE queues ADD COLUMN notifier_service BLOB;
ALTER TABLE queues ADD COLUMN parties BLOB;

CREATE UNIQUE INDEX queues_by_sender ON queues (sender) WHERE sender IS NOT NULL;
CREATE UNIQUE INDEX queues_by_notifier ON queues (notifier) WHERE notifier IS NOT NULL;
CREATE UNIQUE INDEX queues_by_link ON queues (link) WHERE link IS NOT NULL;

-- What an audit counts of notifiers, without touching the queues.
CREATE INDEX queues_by_notifier_service ON queues (notifier_service, notifier)
WHERE notifier_service IS NOT NULL;

-- Messages that are too old, without walking over those that are not.
CREATE INDEX messages_by_arrival ON messages (arrived);

CREATE TABLE identities (
    fingerprint BLOB PRIMARY KEY,
    service     BLOB NOT NULL UNIQUE,
    role        TEXT NOT NULL
) WITHOUT ROWID;
