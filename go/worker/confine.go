package worker

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// allowed names the variables that an untrusted process may have. Keys, tokens, proxies and Python's paths are not among them.
var allowed = []string{"PATH", "LD_LIBRARY_PATH", "LC_ALL", "TMPDIR"}

// Allowed says whether an untrusted process may have a variable of this name.
func Allowed(name string) bool { return slices.Contains(allowed, name) }

// Environment is what an untrusted process gets: paths of programs and libraries, scratch as its temporary folder, messages in English.
func Environment(scratch string) []string {
	set := []string{"LC_ALL=C", "TMPDIR=" + scratch}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH"} {
		if value, ok := os.LookupEnv(name); ok {
			set = append(set, name+"="+value)
		}
	}
	return set
}

// Inherit sets no-new-privileges on this thread and resource limits on this process; children and later threads of this one have both.
func Inherit(limits map[int]uint64) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("confine: no new privileges: %w", err)
	}
	for resource, limit := range limits {
		var now unix.Rlimit
		if err := unix.Getrlimit(resource, &now); err != nil {
			return fmt.Errorf("confine: read resource limit %d: %w", resource, err)
		}
		limit = min(limit, now.Max) // an unprivileged process may only lower it
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return fmt.Errorf("confine: set resource limit %d to %d: %w", resource, limit, err)
		}
	}
	return nil
}
