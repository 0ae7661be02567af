package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock: a thread gives up all files but those of the room, for itself and what descends from it.
//
// What Landlock does not cover is seccomp's: attributes of files at every version, and cutting files short before version 3.

const (
	rightsRead   = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	rightsRun    = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	rightsDevice = rightsRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	rightsOwn    = rightsRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE // the process's own folder in /proc: a driver names its threads there, with fopen(.., "w")
	rightsWrite  = rightsRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_TRUNCATE // no links
	rightsFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV // those that a rule about a file may have
)

// handled gives what a version of Landlock can refuse: files, then network, then signals and abstract sockets. Newer versions can more than we ask.
func handled(version int) (unix.LandlockRulesetAttr, uintptr) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1}
	size := unsafe.Sizeof(attr.Handled_access_fs)
	if version >= 2 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 4 {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		size += unsafe.Sizeof(attr.Handled_access_net)
	}
	if version >= 5 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size += unsafe.Sizeof(attr.Scoped)
	}
	return attr, size
}

// restrictFiles leaves this thread the files of the room, the program itself and its own folder in /proc.
func restrictFiles(room Room) error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return fmt.Errorf("confine: tier %d needs Landlock, which this kernel or container does not offer: %w", room.Tier, errno)
	}
	attr, size := handled(int(version))
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("confine: make a Landlock ruleset (version %d): %w", version, errno)
	}
	rules := ruleset{int(fd), attr.Handled_access_fs}
	defer unix.Close(rules.fd)
	own, err := unix.Open("/proc/self", unix.O_PATH, 0) // stays open through the exec: a rule holds on to an inode, which /proc keeps as long as it is in use
	if err != nil {
		return fmt.Errorf("confine: open `/proc/self`: %w", err)
	}
	err = rules.allow(own, rightsOwn)
	for _, group := range []struct {
		paths  []string
		rights uint64
	}{
		{room.Read, rightsRead}, {room.Run, rightsRun}, {room.Write, rightsWrite}, {room.Devices, rightsDevice},
		{[]string{"/proc/self/exe", interpreter}, rightsRun},
		{[]string{"/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"}, rightsRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE},
	} {
		for _, path := range group.paths {
			err = errors.Join(err, rules.beneath(path, group.rights))
		}
	}
	if err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules.fd), 0, 0); errno != 0 {
		return fmt.Errorf("confine: restrict files: %w", errno)
	}
	return nil
}

// interpreter starts every program that is linked with the C library.
const interpreter = "/lib64/ld-linux-x86-64.so.2"

type ruleset struct {
	fd      int
	handled uint64
}

// beneath allows a file, or a folder and all below it. What is not there needs no rule.
func (r ruleset) beneath(path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.EACCES {
		return nil
	}
	if err != nil {
		return fmt.Errorf("confine: open `%s`: %w", path, err)
	}
	defer unix.Close(fd)
	if err := r.allow(fd, rights); err != nil {
		return fmt.Errorf("confine: allow `%s`: %w", path, err)
	}
	return nil
}

func (r ruleset) allow(fd int, rights uint64) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= rightsFile
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights & r.handled, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// Libraries are the folders in which a program's libraries lie: the system's, what its loader is configured with, and those of a loader path
// ("" if there is none). A loader path that names the user's home or something above it would open that: it is left out.
func Libraries(loaderPath string) []string {
	folders := []string{"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/etc/ld.so.preload"}
	files, _ := filepath.Glob("/etc/ld.so.conf.d/*.conf") // the pattern is well formed
	for _, file := range append(files, "/etc/ld.so.conf") {
		folders = append(folders, absoluteLines(file)...)
	}
	home, _ := os.UserHomeDir()
	for _, folder := range filepath.SplitList(loaderPath) {
		if inside, err := filepath.Rel(folder, home); filepath.IsAbs(folder) && (err != nil || !filepath.IsLocal(inside)) {
			folders = append(folders, folder)
		}
	}
	return folders
}

// absoluteLines are the folders that a configuration of the loader names.
func absoluteLines(file string) []string {
	text, _ := os.ReadFile(file) // one that cannot be read cannot be followed by the loader either
	var folders []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); filepath.IsAbs(line) {
			folders = append(folders, filepath.Clean(line))
		}
	}
	return folders
}

// MachineFacts are files in which the kernel tells what the machine is; nothing in them is anybody's.
func MachineFacts() []string {
	return []string{"/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm/transparent_hugepage", "/proc/cpuinfo", "/proc/meminfo", "/proc/sys/vm", "/proc/stat"}
}
