package forge

// pack.go owns writing packs. It refuses to overwrite anything that is no pack.

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/store"
)

// pack is pack.json; docs/formats.md, `plan and pack`.
type pack struct {
	Digest string         `json:"digest"` // first: sealed
	Schema int            `json:"schema"`
	Made   string         `json:"made"`
	Study  string         `json:"study"` // that wrote it, and may write it again or remove it
	Target string         `json:"target"`
	Pins   map[string]any `json:"pins"`
	Plans  []Winner       `json:"plans"`
}

const hintPack = "name another folder, or free space there"

// Wishes are what a pack is to hold.
type Wishes struct {
	Review *bool // whether what is not approved by name is only proposed; nil: as the newest session wished
	Exact  bool  // only plans that are bitwise equal to eager
}

// WritePack writes the served winners of a study as a pack folder: beside its place first, then by renaming, so that a reader finds the old
// pack or the new one, whole.
func WritePack(s *store.Store, id, path string, wishes Wishes) (plans []string, err error) {
	if err := takeInbox(s, id); err != nil && card.AsError(err).Code != card.CodeLocked { // whoever runs the study takes what waits
		return nil, err
	}
	study, past, err := load(s, id)
	if err != nil {
		return nil, err
	}
	if len(past.off) > 0 { // a test's: what such a study accepted was not judged by the rules
		return nil, card.Fail(card.CodePack, "", "write a pack of study `%s`: its candidates were judged without the gate `%s`", id, past.off[0])
	}
	if wishes.Review != nil {
		past.review = *wishes.Review
	}
	past.exact = past.exact || wishes.Exact
	content := pack{Schema: card.Schema, Made: time.Now().UTC().Format(time.RFC3339), Study: id, Target: study.Target, Pins: study.Pins, Plans: []Winner{}}
	plans = []string{}
	for _, c := range study.Cards {
		for _, winner := range past.winnersOf(c) {
			winner.State = past.stateOf(winner.ID)
			content.Plans = append(content.Plans, winner)
			plans = append(plans, winner.ID)
		}
	}
	path = filepath.Clean(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, card.Fail(card.CodePack, hintPack, "write pack `%s`: %w", path, err)
	}
	folder, lock, err := nextTo(path)
	if err != nil {
		return nil, card.Fail(card.CodePack, hintPack, "write pack `%s`: %w", path, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder), lock.Close()) }() // after the exchange: the old pack
	if err := fillPack(s, id, folder, content); err != nil {
		return nil, card.Fail(card.AsError(err).Code, hintPack, "write pack `%s`: %w", path, err)
	}
	if err := exchange(folder, path); err != nil {
		return nil, card.Fail(card.CodePack, hintPack, "write pack `%s`: %w", path, err)
	}
	return plans, nil
}

// nextTo makes the folder that becomes the pack: next to its place, and locked while its process lives. Those that killed processes left are removed.
func nextTo(path string) (folder string, lock *os.File, err error) {
	parent, name := filepath.Dir(path), "."+filepath.Base(path)+"-"
	entries, err := os.ReadDir(parent)
	if err != nil {
		return "", nil, err
	}
	for _, entry := range entries {
		if number, ours := strings.CutPrefix(entry.Name(), name); ours && entry.IsDir() && digits.MatchString(number) {
			if left, err := locked(filepath.Join(parent, entry.Name())); err == nil {
				os.RemoveAll(left.Name()) // what cannot be removed is no reason not to write
				left.Close()
			}
		}
	}
	for {
		if folder, err = os.MkdirTemp(parent, name+"*"); err != nil {
			return "", nil, err
		}
		lock, err = locked(folder)
		if err == nil {
			return folder, lock, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, os.ErrNotExist) { // those two: another writer took it for one that was left
			return "", nil, errors.Join(err, os.RemoveAll(folder))
		}
	}
}

var digits = regexp.MustCompile(`^[0-9]+$`)

// locked opens a folder that nobody else has locked, and locks it until it is closed.
func locked(folder string) (*os.File, error) {
	file, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if _, err := os.Lstat(folder); err != nil { // removed between the two
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func fillPack(s *store.Store, id, folder string, content pack) error {
	extension := ".so"
	sourceExtension := ".cc"
	if content.Target == "cuda" {
		extension, sourceExtension = ".cubin", ".cu"
	}
	for _, sub := range []string{"code", "source"} {
		if err := os.Mkdir(filepath.Join(folder, sub), 0o755); err != nil {
			return card.Fail(card.CodePack, "", "%w", err)
		}
	}
	var written []string
	for _, plan := range content.Plans {
		for file, blob := range map[string]Blob{
			"code/" + plan.Code.SHA256 + extension: plan.Code, "source/" + plan.Source.SHA256 + sourceExtension: plan.Source,
		} {
			if slices.Contains(written, file) {
				continue
			}
			data, err := s.Get(id, blob.SHA256)
			if err != nil {
				return err
			}
			if err := writeSynced(filepath.Join(folder, file), data); err != nil {
				return card.Fail(card.CodePack, "", "%w", err)
			}
			written = append(written, file)
		}
	}
	text, err := sealed(content)
	if err != nil {
		return card.Fail(card.CodePack, "", "%w", err)
	}
	if err := os.Chmod(folder, 0o755); err != nil { // MkdirTemp made it private
		return card.Fail(card.CodePack, "", "%w", err)
	}
	if err := writeSynced(filepath.Join(folder, "pack.json"), text); err != nil {
		return card.Fail(card.CodePack, "", "%w", err)
	}
	return nil
}

// noDigest stands in the text whose SHA-256 is the digest.
const noDigest = "0000000000000000000000000000000000000000000000000000000000000000"

// sealed is the text of a pack.json. Its digest covers what the hashes of code and source do not: a flipped bit in a guard would serve a kernel
// where it was never judged.
func sealed(content pack) ([]byte, error) {
	content.Digest = noDigest
	text, err := json.MarshalIndent(content, "", " ")
	if err != nil {
		return nil, err
	}
	text = append(text, '\n')
	sum := sha256.Sum256(text)
	return bytes.Replace(text, []byte(noDigest), []byte(hex.EncodeToString(sum[:])), 1), nil
}

// writeSynced writes a file to the disk itself, so that a renamed folder has no empty files after a power cut.
func writeSynced(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}

var hashed = regexp.MustCompile(`^[0-9a-f]{64}\.(so|cubin|cc|cu)$`)

// stranger is the first entry below an old pack that no pack has, or "": the old pack is deleted, and only that may be.
func stranger(path string) (string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		switch name := entry.Name(); {
		case (name == "code" || name == "source") && entry.IsDir():
			files, err := os.ReadDir(filepath.Join(path, name))
			if err != nil {
				return "", err
			}
			for _, file := range files {
				if !hashed.MatchString(file.Name()) || !file.Type().IsRegular() {
					return name + "/" + file.Name(), nil
				}
			}
		case name != "pack.json" && name != "signature.json":
			return name, nil
		}
	}
	return "", nil
}

// exchange puts the new folder in the place of the old one in one step; the old one, if any, is then at the new one's path.
func exchange(folder, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return os.Rename(folder, path)
	case err != nil:
		return err
	case !info.IsDir():
		return errors.New("there is a file of this name (expected a pack's folder, or nothing)")
	}
	if entries, err := os.ReadDir(path); err != nil {
		return err
	} else if len(entries) > 0 && !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "pack.json" }) {
		return errors.New("there is a folder of this name that is no pack (expected a pack's folder, or nothing)")
	}
	if name, err := stranger(path); err != nil || name != "" {
		return errors.Join(err, fmt.Errorf("`%s` lies in it, which no pack has (expected a pack's folder, or nothing)", name))
	}
	err = unix.Renameat2(unix.AT_FDCWD, folder, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	old := folder + ".old" // a file system without exchange: two steps, and for a moment no pack
	if err := os.Rename(path, old); err != nil {
		return err
	}
	return errors.Join(os.Rename(folder, path), os.RemoveAll(old))
}
