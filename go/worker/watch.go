package worker

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// What a process may take, and looking whether it does. A clock on the wall says how busy the machine is; what a process does with its time, its
// threads' CPU time says. So code that computes is bounded by the latter, and code that waits by the former.

// Limit is what one request may take.
type Limit struct {
	CPU  time.Duration // of any one thread of the process; 0: it is not counted (what runs on a device uses none)
	Wall time.Duration // whatever it waits for
}

// Patience is how much longer than its CPU time a request may take, on a machine that does other work too.
const Patience = 20

const (
	tick     = 10 * time.Millisecond  // of the CPU times in /proc: the kernel's USER_HZ, 100 on every x86-64
	looks    = 8                      // at a process while it uses up its CPU time
	seldom   = 250 * time.Millisecond // and no longer in between
	twoLooks = 2                      // find it stopped: one may fall into a pause that somebody's debugger makes
)

// watch looks at a process from time to time while a request runs: whether a thread of it has used up its CPU time, and whether somebody has stopped
// it. A request that is answered before the first look costs a timer.
type watch struct {
	process *process
	cpu     time.Duration
	began   time.Time
	every   time.Duration
	over    func() // called once, at the latest before end returns

	mutex   sync.Mutex
	timer   *time.Timer
	first   map[string]time.Duration // what each thread had used at the first look
	stopped int                      // looks in a row that found it so
	found   string                   // why it is over: spent or halted
	ended   bool
}

const (
	spent  = "spent"
	halted = "halted"
)

func (p *process) watch(cpu time.Duration, over func()) *watch {
	w := &watch{process: p, cpu: cpu, began: time.Now(), every: seldom, over: over}
	if cpu > 0 {
		w.every = min(max(cpu/looks, tick), seldom)
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.timer = time.AfterFunc(w.every, w.look)
	return w
}

func (w *watch) look() { // cannot panic: it reads text that the kernel writes
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.ended {
		return
	}
	if w.process.letter() == "T" {
		w.stopped++
	} else {
		w.stopped = 0
	}
	switch {
	case w.stopped >= twoLooks:
		w.found = halted
	case w.cpu > 0 && w.used() >= w.cpu:
		w.found = spent
	default:
		w.timer.Reset(w.every)
		return
	}
	w.over()
}

// used is what the busiest thread has used since the first look. Where the kernel does not say it, it is the time on the wall.
func (w *watch) used() time.Duration {
	folder := fmt.Sprintf("/proc/%d/task", w.process.pid)
	threads, err := os.ReadDir(folder)
	if err != nil {
		return time.Since(w.began)
	}
	now, most := make(map[string]time.Duration, len(threads)), time.Duration(0)
	for _, thread := range threads {
		stat, err := os.ReadFile(folder + "/" + thread.Name() + "/stat")
		if os.IsNotExist(err) { // it has ended
			continue
		}
		cpu, ok := cpuOf(stat)
		if err != nil || !ok {
			return time.Since(w.began)
		}
		now[thread.Name()] = cpu
		most = max(most, cpu-w.first[thread.Name()])
	}
	if w.first == nil {
		w.first = now
		return 0
	}
	return most
}

// end ends the looking, and says what it has found: "", spent or halted.
func (w *watch) end() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.ended = true
	w.timer.Stop()
	return w.found
}

// letter is the kernel's letter for the process's: R, S, D, T (somebody has stopped it), Z (it has ended); "" where it is gone.
func (p *process) letter() string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if fields := fieldsOf(stat); len(fields) > 0 {
		return fields[0]
	}
	return ""
}

// leaving says whether the process has ended or is about to: a stream ends with its process, or because that has closed it and lives on. A kernel that
// tells nothing of its processes (some containers') leaves it open.
func (p *process) leaving() (yes, known bool) {
	const flags, exiting = 6, 0x4 // field 9 of proc(5), and the kernel's PF_EXITING in it
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	fields := fieldsOf(stat)
	if len(fields) <= flags {
		return true, true // it is gone
	}
	set, err := strconv.ParseUint(fields[flags], 10, 64)
	return fields[0] == "Z" || set&exiting != 0, err == nil && set != 0
}

// fieldsOf are the fields of a `stat` in /proc after the program's name, which may hold anything: the state is the first.
func fieldsOf(stat []byte) []string {
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
}

// cpuOf is a thread's CPU time, its own and the kernel's for it.
func cpuOf(stat []byte) (time.Duration, bool) {
	const user, system = 11, 12 // utime and stime, fields 14 and 15 of proc(5), whose third is the state
	fields := fieldsOf(stat)
	if len(fields) <= system {
		return 0, false
	}
	u, err1 := strconv.ParseInt(fields[user], 10, 64)
	s, err2 := strconv.ParseInt(fields[system], 10, 64)
	return time.Duration(u+s) * tick, err1 == nil && err2 == nil
}
