package worker

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/kernelforge/kernelforge/go/worker/sandbox"
)

// What an untrusted process may see of the environment and of the machine. The walls themselves are in worker/sandbox.

// allowed names the variables that an untrusted process may have. Keys, tokens, proxies and Python's paths are not among them.
var allowed = []string{"PATH", "LD_LIBRARY_PATH", "LC_ALL", "TMPDIR", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "KERNELFORGE_LIBCUDA"}

// deviceVariables decide which GPUs CUDA sees, in which order and through which driver: with other values an ordinal would mean another GPU.
var deviceVariables = []string{"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "KERNELFORGE_LIBCUDA"}

// Allowed says whether an untrusted process may have a variable of this name.
func Allowed(name string) bool { return slices.Contains(allowed, name) }

// Environment is what an untrusted process gets: paths of programs and libraries, scratch as its temporary folder, messages in English.
func Environment(scratch string) []string {
	return environment(scratch, nil, "PATH", "LD_LIBRARY_PATH")
}

// environment takes variables from `given`, else from this process's own. Python's `os.environ` is not the latter: Go sees what the process
// was started with.
func environment(scratch string, given map[string]string, names ...string) []string {
	set := []string{"LC_ALL=C", "TMPDIR=" + scratch}
	for _, name := range names {
		value, ok := given[name]
		if !ok {
			value, ok = os.LookupEnv(name)
		}
		if ok {
			set = append(set, name+"="+value)
		}
	}
	return set
}

// BareRoom is the least that a process of the program needs, whatever it does: its libraries, and facts about the machine. loaderPath is the one
// that it is started with.
func BareRoom(tier int, loaderPath string) sandbox.Room {
	return sandbox.Room{Tier: tier, Read: append(sandbox.Libraries(loaderPath), sandbox.MachineFacts()...)}
}

// LoaderPath is this process's own.
func LoaderPath() string { return os.Getenv("LD_LIBRARY_PATH") }

// Room of a worker: nothing in it may be written but the nodes of a device.
func (c Config) Room() sandbox.Room {
	loader, ok := c.Variables["LD_LIBRARY_PATH"]
	if !ok || !c.CUDA {
		loader = LoaderPath()
	}
	room := BareRoom(c.Tier, loader)
	room.Read = append(room.Read, filepath.Dir(c.Runtime))
	if c.CUDA {
		room.Devices, room.Read = deviceNodes(), append(room.Read, driverFiles...)
		for _, given := range []string{c.Variables["KERNELFORGE_LIBCUDA"], os.Getenv("KERNELFORGE_LIBCUDA")} {
			if filepath.IsAbs(given) {
				room.Read = append(room.Read, filepath.Dir(given))
			}
		}
	}
	return room
}

// driverFiles are what NVIDIA's driver reads while it starts, beside its libraries: what it says of itself in /proc, the machine's buses and
// memory in /sys, profiles of applications.
var driverFiles = []string{"/sys", "/proc/driver", "/proc/devices", "/proc/modules", "/proc/version", "/proc/filesystems", "/proc/sys/kernel", "/etc/nvidia", "/usr/share/nvidia"}

// deviceNodes are the driver's: its control nodes, one numbered node for each GPU, its capabilities. WSL has one node of its own.
func deviceNodes() []string {
	nodes, _ := filepath.Glob("/dev/nvidia*") // the pattern is well formed
	return append(nodes, "/dev/dxg")
}

// Furnish makes the secret that a process's self-test tries to read, in a folder that is not in the room, and adds the room to the command. The
// secret is of no more use when the self-test has answered: discard removes it.
func Furnish(command *exec.Cmd, room sandbox.Room, folder string) (discard func(), err error) {
	secret, err := os.CreateTemp(folder, "secret-")
	if err != nil {
		return nil, fmt.Errorf("make a secret for the self-test: %w", err)
	}
	_, err = secret.WriteString("a process that reads this is not confined\n")
	if closed := secret.Close(); err == nil {
		err = closed
	}
	if err != nil {
		os.Remove(secret.Name())
		return nil, fmt.Errorf("make a secret for the self-test: %w", err)
	}
	room.Secret = secret.Name()
	command.Args = append(command.Args, room.Arguments()...)
	return func() { os.Remove(secret.Name()) }, nil
}
