// Package store keeps studies in one SQLite file: an append-only event log, content-addressed sources and binaries, and an inbox through
// which other processes reach the one that runs a study.
//
// It owns the file, the lock on a study, and what can be derived from events. It refuses to decide anything: what a tree does with an event is
// go/forge's. One process runs a study (flock); readers are unlimited and never wait. An event that was appended survives kill -9.
package store

import (
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/kernelforge/kernelforge/go/card"
)

// SchemaVersion is the newest schema that this build reads and writes.
const SchemaVersion = 2 // 2: the replies of authors

// applicationID marks the file as ours (PRAGMA application_id): "KFst".
const applicationID = 0x4B467374

//go:embed schema.sql
var schema string

// Store is an open store. Safe for use by several goroutines.
type Store struct {
	db   *sql.DB
	path string
	now  func() time.Time
}

// Patience is how long a write waits for another process's write.
const (
	PatienceCall = 150 * time.Millisecond // of an operation that must answer within 200 ms
	PatienceRun  = 10 * time.Second       // of a running study
)

// Open opens a store, and creates it where there is none.
func Open(path string, patience time.Duration) (*Store, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, card.Fail(card.CodeStore, hintPlace, "open store `%s`: %w", path, err)
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if err := lay(path, patience); err != nil {
			return nil, err
		}
	}
	return open(path, path, patience)
}

// lay makes a store beside its place and links it there whole: of several processes that create one at the same time one wins, and nobody sees
// half a store. Where the file system knows no links, open lays the tables in place.
func lay(path string, patience time.Duration) error {
	folder, err := os.MkdirTemp(filepath.Dir(path), ".kernelforge-store-*")
	if err != nil {
		return card.Fail(card.CodeStore, hintPlace, "create store `%s`: %w", path, err)
	}
	defer os.RemoveAll(folder)
	whole := filepath.Join(folder, "store.db")
	s, err := open(whole, path, patience)
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return s.fail("create store", err)
	}
	_ = os.Link(whole, path) // it exists: another process was faster
	return nil
}

// OpenExisting opens a store that must be there already.
func OpenExisting(path string, patience time.Duration) (*Store, error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, card.Fail(card.CodeNotFound, "name the store that `kernelforge optimize` wrote with --store", "open store `%s`: there is no such file", path)
	}
	return open(path, path, patience)
}

const hintPlace = "name another place with --store or KERNELFORGE_HOME, or free space there"

// open opens the file at path, which errors call by the name `shown`.
func open(path, shown string, patience time.Duration) (*Store, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, card.Fail(card.CodeStore, hintPlace, "open store `%s`: %w", path, err)
	}
	address := url.URL{Scheme: "file", Path: absolute, RawQuery: url.Values{
		"_txlock": {"immediate"},
		"_pragma": {fmt.Sprintf("busy_timeout(%d)", patience.Milliseconds()), "synchronous(normal)"},
	}.Encode()}
	db, err := sql.Open("sqlite", address.String())
	if err != nil {
		return nil, card.Fail(card.CodeStore, hintPlace, "open store `%s`: %w", path, err)
	}
	db.SetMaxOpenConns(2)
	shown, err = filepath.Abs(shown)
	if err != nil {
		return nil, errors.Join(card.Fail(card.CodeStore, hintPlace, "open store `%s`: %w", path, err), db.Close())
	}
	s := &Store{db: db, path: shown, now: time.Now}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// prepare compares the schema's version, and lays the tables of a new file.
func (s *Store) prepare() error {
	var version, application, tables int
	// One statement sees one state of the file: another process may be laying the tables meanwhile.
	if err := s.db.QueryRow(`SELECT v.user_version, a.application_id, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_user_version v, pragma_application_id a`).Scan(&version, &application, &tables); err != nil {
		return s.fail("open store", err)
	}
	switch {
	case version > SchemaVersion && application == applicationID:
		return card.Fail(card.CodeSchema, "update kernelforge, or name another store with --store",
			"open store `%s`: it has schema %d (this kernelforge knows up to %d)", s.path, version, SchemaVersion)
	case application != applicationID && (tables > 0 || application != 0):
		return card.Fail(card.CodeStore, "name another file with --store", "open store `%s`: it is a database of another program", s.path)
	case version == SchemaVersion:
		return nil
	case version > 0: // every table that came later is laid where it is not there yet
		return s.tables("bring up to date the store")
	}
	for _, statement := range []string{"PRAGMA auto_vacuum = FULL", "PRAGMA journal_mode = WAL"} { // both stay with the file
		if _, err := s.db.Exec(statement); err != nil {
			return s.fail("create store", err)
		}
	}
	return s.tables("create store")
}

// tables makes the tables that are not there.
func (s *Store) tables(what string) error {
	return s.write(what, func(tx *sql.Tx) error {
		_, err := tx.Exec(fmt.Sprintf("%s; PRAGMA application_id = %d; PRAGMA user_version = %d;", schema, applicationID, SchemaVersion))
		return err
	})
}

// Close closes the file. Events that were appended are safe already.
func (s *Store) Close() error { return s.db.Close() }

// Path is where the store lies.
func (s *Store) Path() string { return s.path }

// write runs one transaction.
func (s *Store) write(what string, change func(*sql.Tx) error) error {
	tx, err := s.db.Begin()
	if err != nil {
		return s.fail(what, err)
	}
	if err := change(tx); err != nil {
		_ = tx.Rollback() // the first error is the one that matters
		return s.fail(what, err)
	}
	if err := tx.Commit(); err != nil {
		return s.fail(what, err)
	}
	return nil
}

// fail says what the file system or SQLite refused, in words that the reader can act on.
func (s *Store) fail(what string, err error) error {
	var known *card.Error
	if errors.As(err, &known) {
		return err
	}
	found, hint := err.Error(), ""
	var low *sqlite.Error
	if errors.As(err, &low) {
		switch low.Code() & 0xff {
		case sqlite3.SQLITE_FULL:
			found, hint = "the disk is full", "free space there, then start again: the study resumes where it stopped"
		case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
			found, hint = "it is read only", "make the file and its folder writable, or name another place with --store"
		case sqlite3.SQLITE_CANTOPEN:
			found, hint = "the file cannot be opened or made", "are the folder and the file there and writable? --store names another place"
		case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
			found, hint = "the file is damaged, or no store", "restore it from a copy, name another file with --store, or move it aside with `kernelforge cache clear --all`"
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
			found, hint = "another process keeps writing to it", "try again"
		case sqlite3.SQLITE_IOERR:
			found, hint = fmt.Sprintf("reading or writing the file failed (%v)", err), hintPlace
		}
	}
	return card.Fail(card.CodeStore, hint, "%s `%s`: %s", what, s.path, found)
}
