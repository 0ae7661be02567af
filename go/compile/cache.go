package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"

	"github.com/kernelforge/kernelforge/go/card"
)

// Cache keeps images by the hash of everything that went into them. Each file begins with the SHA-256 of its image, so that a torn or
// damaged file is compiled again. The folder is private: what lies there is loaded into the worker, and later into the user's process.
// A nil *Cache keeps nothing.
type Cache struct {
	folder    string
	extension string // of its files: ".so", ".cubin"
}

const cacheHint = "choose a folder of yours with free space for `cache` (KERNELFORGE_HOME), or free space there"

// OpenCache makes the folder if need be and tries that it can be written. No folder, no cache.
func OpenCache(folder, extension string) (*Cache, error) {
	if folder == "" {
		return nil, nil
	}
	fail := func(err error) error {
		return card.Fail(card.CodeJudge, cacheHint, "open the compile cache `%s`: %w", folder, err)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fail(err)
	}
	info, err := os.Stat(folder)
	if err != nil {
		return nil, fail(err)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && (int(stat.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0) {
		return nil, card.Fail(card.CodeJudge, cacheHint, "open the compile cache `%s`: owner %d, mode %o (expected a folder of user %d that others cannot write)",
			folder, stat.Uid, info.Mode().Perm(), os.Geteuid())
	}
	probe, err := os.CreateTemp(folder, "probe-")
	if err != nil {
		return nil, fail(err)
	}
	probe.Close()
	if err := os.Remove(probe.Name()); err != nil {
		return nil, fail(err)
	}
	return &Cache{folder, extension}, nil
}

// Of is the same folder's cache of files with another extension.
func (c *Cache) Of(extension string) *Cache { return &Cache{c.folder, extension} }

// Key is the SHA-256 of the parts, as JSON so that no two lists of parts read the same.
func (c *Cache) Key(parts ...any) string {
	text, err := json.Marshal(parts)
	if err != nil {
		panic(err) // the parts are strings and lists of strings
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func (c *Cache) path(key string) string { return filepath.Join(c.folder, key[:2], key[2:]+c.extension) }

// Get gives the image, or nil if it is not there whole.
func (c *Cache) Get(key string) ([]byte, error) {
	if c == nil {
		return nil, nil
	}
	content, err := os.ReadFile(c.path(key))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, card.Fail(card.CodeJudge, cacheHint, "read the compile cache: %w", err)
	}
	if len(content) <= sha256.Size || sha256.Sum256(content[sha256.Size:]) != [sha256.Size]byte(content[:sha256.Size]) {
		return nil, nil
	}
	return content[sha256.Size:], nil
}

// Put writes beside the place and renames, so that a reader meets a whole file or none.
func (c *Cache) Put(key string, image []byte) error {
	if c == nil {
		return nil
	}
	err := func() error {
		final := c.path(key)
		if err := os.MkdirAll(filepath.Dir(final), 0o700); err != nil {
			return err
		}
		file, err := os.CreateTemp(c.folder, "new-")
		if err != nil {
			return err
		}
		defer os.Remove(file.Name()) // after the rename there is nothing of this name
		sum := sha256.Sum256(image)
		_, err = file.Write(append(sum[:], image...))
		if closed := file.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return err
		}
		return os.Rename(file.Name(), final)
	}()
	if err != nil {
		return card.Fail(card.CodeJudge, cacheHint, "write the compile cache: %w", err)
	}
	return nil
}
