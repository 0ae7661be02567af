package store

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
)

func TestWhatCannotBeOpenedIsToldInWords(t *testing.T) {
	folder := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	foreign := filepath.Join(folder, "foreign.db")
	db, err := sql.Open("sqlite", foreign)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE someone (id)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(folder, "newer.db")
	s, err := Open(newer, PatienceRun)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.Exec("PRAGMA user_version = 3"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ path, code, text string }{
		"a text file":       {write("text.db", strings.Repeat("not a database\n", 100)), card.CodeStore, "damaged, or no store"},
		"another program's": {foreign, card.CodeStore, "a database of another program"},
		"a newer schema":    {newer, card.CodeSchema, "it has schema 3 (this kernelforge knows up to 2)"},
		"below a file":      {filepath.Join(write("file", "x"), "store.db"), card.CodeStore, "not a directory"},
		"a folder":          {folder, card.CodeStore, "cannot be opened"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(test.path, PatienceRun)
			if codeOf(err) != test.code || !strings.Contains(err.Error(), test.text) || card.AsError(err).Hint == "" {
				t.Errorf("found %v, hint %q (expected %q)", err, card.AsError(err).Hint, test.text)
			}
		})
	}
	if _, err := OpenExisting(filepath.Join(folder, "none.db"), PatienceCall); codeOf(err) != card.CodeNotFound {
		t.Errorf("a missing store gives %v", err)
	}
}

func TestFullDiskLosesNothingThatWasWritten(t *testing.T) {
	s := temporary(t)
	create(t, s, "s-1")
	s.db.SetMaxOpenConns(1) // the limit below belongs to a connection
	var pages int
	if err := s.db.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	limit := func(n int) {
		if _, err := s.db.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", n)); err != nil {
			t.Fatal(err)
		}
	}
	limit(pages + 2) // SQLite meets this limit as it meets a full disk
	page, appended := strings.Repeat("x", 4096), 0
	var err error
	for ; err == nil && appended < 100; appended++ {
		_, err = s.Append("s-1", Entry{Kind: KindSpend, Data: page})
	}
	if codeOf(err) != card.CodeStore || !strings.Contains(err.Error(), "the disk is full") || !strings.Contains(card.AsError(err).Hint, "resumes") {
		t.Fatalf("a full disk gives %v, hint %q", err, card.AsError(err).Hint)
	}
	events, err := s.Events("s-1", 0)
	if err != nil || len(events) != appended { // the first event, and all but the one that failed
		t.Fatalf("%d events are there, %v (expected %d)", len(events), err, appended)
	}
	limit(pages + 1000)
	if _, err := s.Append("s-1", Entry{Kind: KindSpend, Data: page}); err != nil {
		t.Errorf("with space again: %v", err)
	}
}

func TestReadOnlyStoreSaysSo(t *testing.T) {
	s := temporary(t)
	create(t, s, "s-1")
	s.db.SetMaxOpenConns(1)
	if _, err := s.db.Exec("PRAGMA query_only = 1"); err != nil {
		t.Fatal(err)
	}
	_, err := s.Append("s-1", Entry{Kind: KindSpend, Data: 1})
	if codeOf(err) != card.CodeStore || !strings.Contains(err.Error(), "read only") {
		t.Errorf("found %v", err)
	}
	if _, err := s.Events("s-1", 0); err != nil {
		t.Errorf("reading is refused: %v", err)
	}
}

func TestErrorKeepsItsCauseOutOfJSON(t *testing.T) {
	text, err := json.Marshal(card.AsError(card.Fail(card.CodeStore, "do this", "open: %w", errors.New("cause"))))
	if err != nil || string(text) != `{"code":"store","text":"open: cause","hint":"do this"}` {
		t.Errorf("written as %s, %v", text, err)
	}
}

// A clock that jumps, or is set back, changes what events say of their time and nothing else: not their order, nor which study is the newest.
func TestAClockThatJumpsDoesNotChangeTheOrder(t *testing.T) {
	s := temporary(t)
	jumps := []time.Duration{0, 240 * time.Hour, -8760 * time.Hour, time.Second, -time.Hour}
	looks := 0
	s.now = func() time.Time {
		looks++
		return time.Unix(1_700_000_000, 0).Add(jumps[looks%len(jumps)])
	}
	for _, id := range []string{"s-1", "s-2", "s-3"} {
		create(t, s, id)
	}
	ids, err := s.Studies()
	if err != nil || strings.Join(ids, " ") != "s-3 s-2 s-1" {
		t.Errorf("the newest first: %v, %v", ids, err)
	}
	for i := range 10 {
		if _, err := s.Append("s-2", Entry{Kind: KindSpend, Data: i}); err != nil {
			t.Fatal(err)
		}
	}
	events, err := s.Events("s-2", 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, event := range events[len(events)-10:] {
		if string(event.Data) != fmt.Sprint(i) {
			t.Errorf("event %d is %s", i, event.Data)
		}
	}
}
