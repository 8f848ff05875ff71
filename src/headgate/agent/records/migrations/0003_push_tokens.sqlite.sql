-- Devices that were registered at notification servers. The keys are here before they are shown:
-- to register again with the same ones gives the same token and the same code.
CREATE TABLE push_tokens (
    server     TEXT NOT NULL,
    device     BLOB NOT NULL,
    sign_key   BLOB NOT NULL,
    dh_private BLOB NOT NULL,
    token      BLOB,
    push_key   BLOB,
    verified   INTEGER NOT NULL,
    PRIMARY KEY (server, device)
) WITHOUT ROWID;

-- A push names the notifier of a queue.
CREATE INDEX receive_queues_of_notifier ON receive_queues (router, notifier_id)
    WHERE notifier_id IS NOT NULL;
