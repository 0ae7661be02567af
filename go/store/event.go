package store

// event.go owns the log, the bytes by hash and the inbox. It refuses to change or to interpret what was written.

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
)

// Event is one line of a study's log.
type Event struct {
	Seq  int64           `json:"seq"`
	At   string          `json:"at"`
	Run  string          `json:"run"` // card id, or "" for the whole study
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data"`
}

// Kinds of events; docs/formats.md, `events`, says what their data is.
const (
	KindSession    = "session"    // a process began to work on the study
	KindForecast   = "forecast"   // what the study will take, before the first spend
	KindRun        = "run"        // a run began or ended
	KindSelection  = "selection"  // a place to grow, with all terms
	KindProposal   = "proposal"   // a candidate for it, or none
	KindAttempt    = "attempt"    // a repair of a candidate that did not compile or launch
	KindVerdict    = "verdict"    // how the candidate ended: a node
	KindAuthor     = "author"     // an author is asked no more
	KindSpend      = "spend"      // seconds and money
	KindCount      = "count"      // somebody asks for the counters of a node
	KindCounters   = "counters"   // what a device's hardware counted while a node ran, or why that is not known
	KindControls   = "controls"   // how outputs known to be wrong ended on a card's inputs
	KindSamples    = "samples"    // evidence of a confirmation
	KindPlan       = "plan"       // a winner
	KindModel      = "model"      // the whole model with and without winners
	KindDecision   = "decision"   // which winners the measurements of the model keep
	KindSubmission = "submission" // a candidate from outside
	KindApproval   = "approval"   // winners that a person approved
	KindResult     = "result"     // the report
	KindState      = "state"      // the study's state
	KindOrigin     = "origin"     // what a command needs to make the model again
	KindFacts      = "facts"      // what a device said of itself when it was opened
)

// Entry is an event that is to be appended.
type Entry struct {
	Run, Kind string
	Data      any
}

// Append adds events in one step: all of them, or none.
func (s *Store) Append(study string, entries ...Entry) ([]Event, error) {
	var events []Event
	err := s.write("append to", func(tx *sql.Tx) (err error) {
		events, err = s.insert(tx, study, entries)
		return err
	})
	return events, err
}

func (s *Store) insert(tx *sql.Tx, study string, entries []Entry) ([]Event, error) {
	events, at := make([]Event, 0, len(entries)), s.now().UTC().Format(time.RFC3339Nano) // one step, one time
	for _, entry := range entries {
		data, err := json.Marshal(entry.Data)
		if err != nil {
			return nil, err
		}
		event := Event{At: at, Run: entry.Run, Kind: entry.Kind, Data: data}
		row, err := tx.Exec("INSERT INTO events (study, run, kind, at, data) VALUES (?, ?, ?, ?, ?)",
			study, event.Run, event.Kind, event.At, string(data))
		if err != nil {
			return nil, err
		}
		if event.Seq, err = row.LastInsertId(); err != nil {
			return nil, err
		}
		events = append(events, event)
	}
	return events, nil
}

// Events gives a study's log after an event, oldest first.
func (s *Store) Events(study string, after int64) ([]Event, error) {
	rows, err := s.db.Query("SELECT seq, at, run, kind, data FROM events WHERE study = ? AND seq > ? ORDER BY seq", study, after)
	if err != nil {
		return nil, s.fail("read the events of", err)
	}
	defer rows.Close()
	var events []Event
	for rows.Next() {
		var event Event
		var data []byte
		if err := rows.Scan(&event.Seq, &event.At, &event.Run, &event.Kind, &data); err != nil {
			return nil, s.fail("read the events of", err)
		}
		event.Data = data
		events = append(events, event)
	}
	if err := rows.Err(); err != nil {
		return nil, s.fail("read the events of", err)
	}
	return events, nil
}

// Put keeps bytes by their SHA-256, and gives it in hexadecimal.
func (s *Store) Put(study string, data []byte) (string, error) {
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	err := s.write("keep bytes in", func(tx *sql.Tx) error {
		_, err := tx.Exec("INSERT OR IGNORE INTO blobs VALUES (?, ?, ?)", study, name, data)
		return err
	})
	return name, err
}

// Get gives the bytes of a SHA-256, and compares it.
func (s *Store) Get(study, name string) ([]byte, error) {
	var data []byte
	err := s.db.QueryRow("SELECT bytes FROM blobs WHERE study = ? AND sha256 = ?", study, name).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, card.Fail(card.CodeStore, "", "read bytes `%s` of `%s`: they are not there", name, s.path)
	}
	if err != nil {
		return nil, s.fail("read bytes of", err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != name {
		return nil, card.Fail(card.CodeStore, "restore the store from a copy, or remove the study with `kernelforge cache clear --study`",
			"read bytes `%s` of `%s`: their hash is another, the file is damaged", name, s.path)
	}
	return data, nil
}

// Message is what another process asked of the one that runs the study.
type Message struct {
	Seq  int64
	Kind string
	Data json.RawMessage
}

// Send puts a message into a study's inbox.
func (s *Store) Send(study, kind string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return card.Fail(card.CodeRequest, "", "send to study `%s`: %w", study, err)
	}
	return s.write("write to the inbox of", func(tx *sql.Tx) error {
		_, err := tx.Exec("INSERT INTO inbox (study, kind, data, at) VALUES (?, ?, ?, ?)",
			study, kind, string(text), s.now().UTC().Format(time.RFC3339Nano))
		return err
	})
}

// Waiting counts the messages that nobody took yet.
func (s *Store) Waiting(study string) (count int, err error) {
	err = s.db.QueryRow("SELECT count(*) FROM inbox WHERE study = ? AND taken = 0", study).Scan(&count)
	if err != nil {
		return 0, s.fail("read the inbox of", err)
	}
	return count, nil
}

// Inbox gives the messages of a study that nobody took yet, oldest first.
func (s *Store) Inbox(study string) ([]Message, error) {
	rows, err := s.db.Query("SELECT seq, kind, data FROM inbox WHERE study = ? AND taken = 0 ORDER BY seq", study)
	if err != nil {
		return nil, s.fail("read the inbox of", err)
	}
	defer rows.Close()
	var messages []Message
	for rows.Next() {
		var message Message
		var data []byte
		if err := rows.Scan(&message.Seq, &message.Kind, &data); err != nil {
			return nil, s.fail("read the inbox of", err)
		}
		message.Data = data
		messages = append(messages, message)
	}
	if err := rows.Err(); err != nil {
		return nil, s.fail("read the inbox of", err)
	}
	return messages, nil
}

// Receive takes all messages of a study and appends each as an event of its kind, in one step: a message is acted on exactly once. Only the
// holder of the study's lock may call it.
func (s *Store) Receive(study string) ([]Event, error) {
	if waiting, err := s.Waiting(study); err != nil || waiting == 0 { // the usual case, an empty inbox, must not start a write
		return nil, err
	}
	var events []Event
	err := s.write("read the inbox of", func(tx *sql.Tx) error {
		rows, err := tx.Query("SELECT kind, data FROM inbox WHERE study = ? AND taken = 0 ORDER BY seq", study)
		if err != nil {
			return err
		}
		defer rows.Close()
		var entries []Entry
		for rows.Next() {
			var kind string
			var data []byte
			if err := rows.Scan(&kind, &data); err != nil {
				return err
			}
			var head struct {
				Run string `json:"run"`
			}
			if err := json.Unmarshal(data, &head); err != nil {
				return err
			}
			entries = append(entries, Entry{Run: head.Run, Kind: kind, Data: json.RawMessage(data)})
		}
		if err := rows.Err(); err != nil {
			return err
		}
		if events, err = s.insert(tx, study, entries); err != nil {
			return err
		}
		_, err = tx.Exec("UPDATE inbox SET taken = 1 WHERE study = ? AND taken = 0", study)
		return err
	})
	return events, err
}
