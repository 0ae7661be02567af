package store

// reply.go owns what authors answered, by the key of what they were asked. It refuses to look into it.

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
)

// ErrLost means that an earlier session asked and did not live to keep the answer. It may have been paid for, so it is not asked for again.
var ErrLost = errors.New("store: an earlier session asked for this and kept no answer; it may have been paid for")

// Ask gives the reply to a request, or notes that this session asks for it now. ErrLost: another session did, and kept no answer.
func (s *Store) Ask(study, session, key string) (reply []byte, found bool, err error) {
	var asker string
	look := func() error {
		err := s.db.QueryRow("SELECT session, reply FROM reply WHERE key = ?", key).Scan(&asker, &reply)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	}
	if err := look(); err != nil {
		return nil, false, s.fail("read a reply of", err)
	}
	if asker == "" {
		err := s.write("note a request in", func(tx *sql.Tx) error {
			_, err := tx.Exec("INSERT OR IGNORE INTO reply VALUES (?, ?, ?, ?, x'', NULL)", key, study, session, s.now().UTC().Format(time.RFC3339Nano))
			return err
		})
		if err != nil {
			return nil, false, err
		}
		if err := look(); err != nil { // another process may have been faster
			return nil, false, s.fail("read a reply of", err)
		}
	}
	switch {
	case reply != nil:
		return reply, true, nil
	case asker != session:
		return nil, false, ErrLost
	}
	return nil, false, nil
}

// Keep keeps a reply with the events of what it took, in one step, and returns when the disk has it.
func (s *Store) Keep(study, session, key string, request, reply []byte, entries ...Entry) (events []Event, err error) {
	ctx := context.Background()
	synced, err := s.db.Conn(ctx)
	if err != nil {
		return nil, s.fail("keep a reply in", err)
	}
	defer func() { err = errors.Join(err, synced.Close()) }()
	if _, err := synced.ExecContext(ctx, "PRAGMA synchronous = FULL"); err != nil { // money was paid: a power cut must not lose it either
		return nil, s.fail("keep a reply in", err)
	}
	defer func() {
		if _, back := synced.ExecContext(ctx, "PRAGMA synchronous = NORMAL"); back != nil && err == nil {
			err = s.fail("keep a reply in", back)
		}
	}()
	tx, err := synced.BeginTx(ctx, nil)
	if err != nil {
		return nil, s.fail("keep a reply in", err)
	}
	_, err = tx.Exec(`INSERT INTO reply VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET request = excluded.request, reply = excluded.reply
		WHERE reply IS NULL`, key, study, session, s.now().UTC().Format(time.RFC3339Nano), request, reply)
	if err == nil {
		events, err = s.insert(tx, study, entries)
	}
	if err != nil {
		_ = tx.Rollback() // the first error is the one that matters
		return nil, s.fail("keep a reply in", err)
	}
	if err := tx.Commit(); err != nil {
		return nil, s.fail("keep a reply in", err)
	}
	return events, nil
}

// Conversations gives the newest requests with their replies, until one is refused.
func (s *Store) Conversations(most int, each func(request, reply []byte) error) error {
	rows, err := s.db.Query("SELECT request, reply FROM reply WHERE reply IS NOT NULL ORDER BY at DESC LIMIT ?", most)
	if err != nil {
		return s.fail("read the replies of", err)
	}
	defer rows.Close()
	for rows.Next() {
		var request, reply []byte
		if err := rows.Scan(&request, &reply); err != nil {
			return s.fail("read the replies of", err)
		}
		if err := each(request, reply); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return s.fail("read the replies of", err)
	}
	return nil
}

// Conversation gives a request and its reply.
func (s *Store) Conversation(key string) (request, reply []byte, err error) {
	err = s.db.QueryRow("SELECT request, reply FROM reply WHERE key = ? AND reply IS NOT NULL", key).Scan(&request, &reply)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil, card.Fail(card.CodeNotFound, "", "read reply `%s` of `%s`: it is not there", key, s.path)
	}
	if err != nil {
		return nil, nil, s.fail("read a reply of", err)
	}
	return request, reply, nil
}
