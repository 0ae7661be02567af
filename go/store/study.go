package store

// study.go owns what a study is about: written once, read by many, cleared whole.

import (
	"database/sql"
	"encoding/json"
	"errors"
	"regexp"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
)

// Study says what a study is about. It never changes; what happens to a study is in its events.
type Study struct {
	ID     string
	Made   time.Time
	Target string
	Model  string
	Pins   map[string]any
	Cards  []*card.Card
}

// Device is the study's device pin.
func (s *Study) Device() string {
	device, _ := s.Pins["device"].(string)
	return device
}

// Threads is the study's pin of the thread count; fallback where it has none.
func (s *Study) Threads(fallback int) int {
	if threads, ok := s.Pins["threads"].(float64); ok { // as JSON has it
		return int(threads)
	}
	return fallback
}

var studyPattern = regexp.MustCompile(`^[^/\x00-\x1f]{1,80}$`)

// Create writes a new study with its cards and its first events, in one step.
func (s *Store) Create(study *Study, first ...Entry) error {
	if !studyPattern.MatchString(study.ID) {
		return card.Fail(card.CodeRequest, "at most 80 bytes, without `/`", "create study `%s`: this cannot be a name", study.ID)
	}
	pins, err := json.Marshal(study.Pins)
	if err != nil {
		return card.Fail(card.CodeRequest, "", "create study `%s`: pins: %w", study.ID, err)
	}
	study.Made = s.now().UTC().Truncate(time.Second)
	return s.write("create a study in", func(tx *sql.Tx) error {
		_, err := tx.Exec("INSERT INTO studies VALUES (?, ?, ?, ?, ?, ?)",
			study.ID, study.Made.Format(time.RFC3339), study.Target, study.Model, study.Device(), string(pins))
		if err != nil {
			return err
		}
		for _, c := range study.Cards {
			text, err := json.Marshal(c)
			if err != nil {
				return err
			}
			if _, err := tx.Exec("INSERT INTO cards VALUES (?, ?, ?)", study.ID, c.ID, string(text)); err != nil {
				return err
			}
		}
		_, err = s.insert(tx, study.ID, first)
		return err
	})
}

// Study reads a study. CodeNotFound if there is none of this name.
func (s *Store) Study(id string) (*Study, error) {
	study := &Study{ID: id}
	var made, pins string
	err := s.db.QueryRow("SELECT made, target, model, pins FROM studies WHERE id = ?", id).Scan(&made, &study.Target, &study.Model, &pins)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, card.Fail(card.CodeNotFound, "`kernelforge cache` lists the studies", "read study `%s` of `%s`: there is none of this name", id, s.path)
	}
	if err != nil {
		return nil, s.fail("read a study of", err)
	}
	if study.Made, err = time.Parse(time.RFC3339, made); err != nil {
		return nil, s.fail("read a study of", err)
	}
	if err := json.Unmarshal([]byte(pins), &study.Pins); err != nil {
		return nil, s.fail("read a study of", err)
	}
	rows, err := s.db.Query("SELECT card FROM cards WHERE study = ? ORDER BY rowid", id)
	if err != nil {
		return nil, s.fail("read the cards of", err)
	}
	defer rows.Close()
	for rows.Next() {
		var text []byte
		if err := rows.Scan(&text); err != nil {
			return nil, s.fail("read the cards of", err)
		}
		c, err := card.ReadCard(text)
		if err != nil {
			return nil, s.fail("read the cards of", err)
		}
		study.Cards = append(study.Cards, c)
	}
	if err := rows.Err(); err != nil {
		return nil, s.fail("read the cards of", err)
	}
	return study, nil
}

// Studies gives the names of all studies, the newest first: by the order in which they were made, since clocks are set back.
func (s *Store) Studies() ([]string, error) {
	rows, err := s.db.Query("SELECT id FROM studies ORDER BY rowid DESC")
	if err != nil {
		return nil, s.fail("list the studies of", err)
	}
	defer rows.Close()
	ids := []string{}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, s.fail("list the studies of", err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		return nil, s.fail("list the studies of", err)
	}
	return ids, nil
}

// Clear removes a study with everything that belongs to it. A running study is refused.
func (s *Store) Clear(id string) error {
	if _, err := s.Study(id); err != nil {
		return err
	}
	lock, err := s.Lock(id)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release() }() // nothing was written through it
	return s.write("clear a study of", func(tx *sql.Tx) error {
		for _, statement := range []string{
			"DELETE FROM studies WHERE id = ?", // first: the log may go only after it
			"DELETE FROM cards WHERE study = ?", "DELETE FROM events WHERE study = ?",
			"DELETE FROM blobs WHERE study = ?", "DELETE FROM inbox WHERE study = ?",
		} {
			if _, err := tx.Exec(statement, id); err != nil {
				return err
			}
		}
		return nil
	})
}
