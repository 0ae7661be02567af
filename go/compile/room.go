package compile

import "golang.org/x/sys/unix"

// ScratchHint is what a user can do about temporary files that cannot be written.
const ScratchHint = "set TMPDIR to a folder of yours with free space, and begin again: what was measured is saved"

// leastRoom is what a compile must find free when it failed: with less, the disk is to blame and not the source.
const leastRoom = 4 << 20

// Full says that a folder's file system has no room for a compile.
func Full(folder string) bool {
	var stat unix.Statfs_t
	if unix.Statfs(folder, &stat) != nil {
		return false
	}
	return free(stat) < leastRoom || (stat.Files > 0 && stat.Ffree < 16)
}

// Free is how many bytes a folder's file system has left; 0 where it does not say.
func Free(folder string) uint64 {
	var stat unix.Statfs_t
	if unix.Statfs(folder, &stat) != nil {
		return 0
	}
	return free(stat)
}

func free(stat unix.Statfs_t) uint64 { return stat.Bavail * uint64(stat.Bsize) }
