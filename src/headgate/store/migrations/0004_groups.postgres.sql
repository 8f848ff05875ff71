-- Groups that clients made for a queue, beside the apps of its domain, and the expression of what each
-- of them wants, if it does not want everything.
CREATE TABLE open_groups (
    queue  bigint NOT NULL,
    name   bytea NOT NULL,
    filter bytea,
    PRIMARY KEY (queue, name)
);
