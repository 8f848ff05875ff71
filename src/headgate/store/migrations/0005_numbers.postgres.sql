-- The numbers of the messages of `known`, in its order: who adds one again is told its id.
ALTER TABLE remembered ADD COLUMN numbers bytea;
