-- The store: studies, what they are about, and an event log that is only ever appended to. Everything else (trees, winners, spend, state)
-- is derived from the log. PRAGMA user_version is the schema's number.
CREATE TABLE IF NOT EXISTS studies (
  id       TEXT PRIMARY KEY,
  made     TEXT NOT NULL,          -- RFC 3339, UTC
  target   TEXT NOT NULL,
  model    TEXT NOT NULL,
  device   TEXT NOT NULL,
  pins     TEXT NOT NULL           -- JSON
) STRICT;

CREATE TABLE IF NOT EXISTS cards (
  study    TEXT NOT NULL,
  id       TEXT NOT NULL,
  card     TEXT NOT NULL,          -- JSON, docs/formats.md
  PRIMARY KEY (study, id)
) STRICT;

CREATE TABLE IF NOT EXISTS events (
  seq      INTEGER PRIMARY KEY AUTOINCREMENT,
  study    TEXT NOT NULL,
  run      TEXT NOT NULL,          -- card id, or '' for events of the whole study
  kind     TEXT NOT NULL,
  at       TEXT NOT NULL,
  data     TEXT NOT NULL           -- JSON, docs/formats.md, `events`
) STRICT;
CREATE INDEX IF NOT EXISTS events_of_study ON events (study, seq);

CREATE TRIGGER IF NOT EXISTS events_are_never_changed BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
-- Clearing a study removes its row first; until then none of its events can go.
CREATE TRIGGER IF NOT EXISTS events_are_never_removed BEFORE DELETE ON events
WHEN EXISTS (SELECT 1 FROM studies WHERE id = OLD.study)
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

-- Sources and binaries, by the SHA-256 of their bytes.
CREATE TABLE IF NOT EXISTS blobs (
  study    TEXT NOT NULL,
  sha256   TEXT NOT NULL,
  bytes    BLOB NOT NULL,
  PRIMARY KEY (study, sha256)
) STRICT;

-- Messages of other processes to the one that runs the study.
CREATE TABLE IF NOT EXISTS inbox (
  seq      INTEGER PRIMARY KEY AUTOINCREMENT,
  study    TEXT NOT NULL,
  kind     TEXT NOT NULL,          -- 'approval' or 'submission'
  data     TEXT NOT NULL,
  at       TEXT NOT NULL,
  taken    INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Replies of authors that were paid for, by the key of their request. They outlive the studies that paid for them: a request is never paid twice.
CREATE TABLE IF NOT EXISTS reply (
  key      TEXT PRIMARY KEY,
  study    TEXT NOT NULL,          -- that asked first
  session  TEXT NOT NULL,          -- of the process that asked
  at       TEXT NOT NULL,
  request  BLOB NOT NULL,          -- empty until the reply is there
  reply    BLOB                    -- NULL: asked, and no reply was kept
) STRICT;
