package store

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
)

func TestARequestIsAskedOnceAndItsReplyKeptWithWhatItTook(t *testing.T) {
	s := temporary(t)
	if _, found, err := s.Ask("s-one", "first", "key"); found || err != nil {
		t.Fatalf("found %v, %v (expected nothing yet)", found, err)
	}
	if _, found, err := s.Ask("s-one", "first", "key"); found || err != nil { // it retries
		t.Fatalf("found %v, %v (expected nothing yet, of the same session)", found, err)
	}
	events, err := s.Keep("s-one", "first", "key", []byte("question"), []byte("answer"), Entry{Kind: KindSpend, Data: map[string]any{"usd": 0.5}})
	if err != nil || len(events) != 1 {
		t.Fatalf("kept with %v, %v", events, err)
	}
	for _, session := range []string{"first", "second"} {
		if reply, found, err := s.Ask("s-two", session, "key"); string(reply) != "answer" || !found || err != nil {
			t.Errorf("session %s found %q, %v, %v", session, reply, found, err)
		}
	}
	if _, err := s.Keep("s-one", "second", "key", []byte("other"), []byte("other")); err != nil {
		t.Fatal(err)
	}
	request, reply, err := s.Conversation("key")
	if string(request) != "question" || string(reply) != "answer" || err != nil {
		t.Errorf("the conversation is %q, %q, %v (expected the first to stay)", request, reply, err)
	}
	if _, _, err := s.Conversation("none"); card.AsError(err).Code != card.CodeNotFound {
		t.Errorf("found %v", err)
	}
}

// The process may have been killed after the answer was paid and before it was kept.
func TestARequestOfADeadSessionIsNotAskedAgain(t *testing.T) {
	s := temporary(t)
	if _, _, err := s.Ask("s-one", "first", "key"); err != nil {
		t.Fatal(err)
	}
	if _, found, err := s.Ask("s-one", "second", "key"); found || !errors.Is(err, ErrLost) {
		t.Errorf("found %v, %v (expected ErrLost)", found, err)
	}
	if _, _, err := s.Conversation("key"); err == nil {
		t.Error("a request without a reply is no conversation")
	}
}

// A store of the first schema gets the table, and keeps what it has.
func TestAnOlderStoreIsBroughtUpToDate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "old.db")
	s, err := Open(path, PatienceRun)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append("s-one", Entry{Kind: KindState, Data: map[string]string{"state": "done"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("DROP TABLE reply; PRAGMA user_version = 1"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = OpenExisting(path, PatienceRun); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	events, err := s.Events("s-one", 0)
	if err != nil || len(events) != 1 || !strings.Contains(string(events[0].Data), "done") {
		t.Errorf("the log is %v, %v", events, err)
	}
	if _, err := s.Keep("s-one", "first", "key", []byte("question"), []byte("answer")); err != nil {
		t.Error(err)
	}
}
