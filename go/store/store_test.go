package store

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/kernelforge/kernelforge/go/card"
)

// childLocks makes this test binary a process that takes a lock and holds it until its input ends.
const childLocks = "KF_TEST_LOCK"

func TestMain(m *testing.M) {
	if path := os.Getenv(childLocks); path != "" {
		s, err := Open(path, PatienceRun)
		if err == nil {
			_, err = s.Lock("s-1")
		}
		fmt.Println(err)
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func temporary(t *testing.T) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "a store?.db"), PatienceRun) // an awkward name: it must not be read as a query
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func sample(id string) *Study {
	return &Study{ID: id, Target: "host", Model: "net", Pins: map[string]any{"device": "a cpu", "threads": 2.0},
		Cards: []*card.Card{{Schema: 1, ID: "c-00000001", Target: "host", Overload: "aten::relu", Layout: "contiguous", Threads: 2, Share: 0.5,
			Variants: []card.Variant{{ID: "v0", Calls: 1, EagerUS: 10, RoofUS: 1, Call: card.Call{Overload: "aten::relu"}}}}}}
}

func create(t *testing.T, s *Store, id string) {
	t.Helper()
	if err := s.Create(sample(id), Entry{Kind: KindSession, Data: map[string]int{"pid": 1}}); err != nil {
		t.Fatal(err)
	}
}

func codeOf(err error) string {
	if err == nil {
		return "nil"
	}
	return card.AsError(err).Code
}

func TestStudyComesBackAsItWas(t *testing.T) {
	s := temporary(t)
	create(t, s, "s-1")
	create(t, s, "s-2")
	study, err := s.Study("s-1")
	if err != nil {
		t.Fatal(err)
	}
	if study.Model != "net" || study.Device() != "a cpu" || study.Pins["threads"] != 2.0 || len(study.Cards) != 1 || study.Cards[0].ID != "c-00000001" {
		t.Errorf("found %+v", study)
	}
	ids, err := s.Studies()
	if err != nil || strings.Join(ids, " ") != "s-2 s-1" {
		t.Errorf("studies are %v, %v (expected the newest first)", ids, err)
	}
	if _, err := s.Study("s-3"); codeOf(err) != card.CodeNotFound {
		t.Errorf("an unknown study gives %v", err)
	}
	if err := s.Create(sample("s-1")); err == nil {
		t.Error("a second study of one name was made")
	}
	for _, name := range []string{"", "a/b", "new\nline", strings.Repeat("x", 81)} {
		if err := s.Create(sample(name)); codeOf(err) != card.CodeRequest {
			t.Errorf("a study called %q gives %v", name, err)
		}
	}
}

func TestEventsAreInOrderAndStayAsTheyAre(t *testing.T) {
	s := temporary(t)
	create(t, s, "s-1")
	create(t, s, "s-2")
	if _, err := s.Append("s-1", Entry{Run: "c-1", Kind: KindVerdict, Data: 1}, Entry{Kind: KindSpend, Data: 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append("s-2", Entry{Kind: KindSpend, Data: 3}); err != nil {
		t.Fatal(err)
	}
	events, err := s.Events("s-1", 0)
	if err != nil || len(events) != 3 {
		t.Fatalf("found %v, %v", events, err)
	}
	if events[1].Run != "c-1" || events[1].Kind != KindVerdict || string(events[1].Data) != "1" || string(events[2].Data) != "2" {
		t.Errorf("found %+v", events)
	}
	later, err := s.Events("s-1", events[1].Seq)
	if err != nil || len(later) != 1 || later[0].Seq != events[2].Seq {
		t.Errorf("after event %d there is %+v, %v", events[1].Seq, later, err)
	}
	for _, statement := range []string{"UPDATE events SET data = '9'", "DELETE FROM events", "DELETE FROM events WHERE seq = 2"} {
		if _, err := s.db.Exec(statement); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v (expected to be refused)", statement, err)
		}
	}
}

// A step that fails half way leaves nothing behind.
func TestAppendIsAllOrNothing(t *testing.T) {
	s := temporary(t)
	create(t, s, "s-1")
	if _, err := s.Append("s-1", Entry{Kind: KindSpend, Data: 1}, Entry{Kind: KindSpend, Data: func() {}}); err == nil {
		t.Fatal("a function was written as JSON")
	}
	events, err := s.Events("s-1", 0)
	if err != nil || len(events) != 1 {
		t.Errorf("found %d events, %v (expected the first only)", len(events), err)
	}
}

func TestBytesAreKeptByTheirHash(t *testing.T) {
	s := temporary(t)
	rapid.Check(t, func(rt *rapid.T) {
		data := rapid.SliceOf(rapid.Byte()).Draw(rt, "data")
		name, err := s.Put("s-1", data)
		if err != nil {
			rt.Fatal(err)
		}
		again, err := s.Put("s-1", data)
		if err != nil || again != name {
			rt.Fatalf("kept as %s, then %s, %v", name, again, err)
		}
		found, err := s.Get("s-1", name)
		if err != nil || string(found) != string(data) {
			rt.Fatalf("put %x, got %x, %v", data, found, err)
		}
	})
	name, err := s.Put("s-1", []byte("code"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.Exec("UPDATE blobs SET bytes = x'00' WHERE sha256 = ?", name); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get("s-1", name); err == nil || !strings.Contains(err.Error(), "hash") {
		t.Errorf("damaged bytes give %v", err)
	}
}

// Both `kernelforge optimize` and a command that only looks may be the first one on a new machine.
func TestManyThatCreateOneStoreAtOnceGetOneWholeStore(t *testing.T) {
	for round := range 20 {
		path := filepath.Join(t.TempDir(), "store.db")
		const count = 8
		errs := make(chan error, count)
		start := make(chan struct{})
		for i := range count {
			go func() {
				<-start
				s, err := Open(path, PatienceRun)
				if err == nil {
					err = errors.Join(s.Create(sample(fmt.Sprintf("s-%d", i)), Entry{Kind: KindSession, Data: map[string]int{"pid": i}}), s.Close())
				}
				errs <- err
			}()
		}
		close(start)
		for range count {
			if err := <-errs; err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		s, err := OpenExisting(path, PatienceCall)
		if err != nil {
			t.Fatal(err)
		}
		studies, err := s.Studies()
		if err != nil || len(studies) != count {
			t.Errorf("round %d: found %d studies, %v (expected %d)", round, len(studies), err, count)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".kernelforge-store-*")); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	}
}

func TestSecondProcessIsRefusedByName(t *testing.T) {
	s := temporary(t)
	create(t, s, "s-1")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childLocks+"="+s.Path())
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "<nil>\n" {
		t.Fatalf("the child locked: %q, %v", line, err)
	}
	_, err = s.Lock("s-1")
	if codeOf(err) != card.CodeLocked || !strings.Contains(err.Error(), fmt.Sprintf("process %d", child.Process.Pid)) || card.AsError(err).Hint == "" {
		t.Errorf("a second lock gives %v, hint %q", err, card.AsError(err).Hint)
	}
	if !s.Running("s-1") {
		t.Error("the study is not seen running")
	}
	if _, err := s.Events("s-1", 0); err != nil {
		t.Errorf("a reader is refused: %v", err)
	}
	if err := s.Clear("s-1"); codeOf(err) != card.CodeLocked {
		t.Errorf("clearing a running study gives %v", err)
	}
	other, err := s.Lock("s-2")
	if err != nil {
		t.Errorf("another study is refused: %v", err)
	} else if err := other.Release(); err != nil {
		t.Error(err)
	}
	if err := child.Process.Kill(); err != nil { // as kill -9 does it
		t.Fatal(err)
	}
	_ = child.Wait() // "signal: killed"
	_ = input.Close()
	if s.Running("s-1") {
		t.Error("a dead process is seen running")
	}
	lock, err := s.Lock("s-1")
	if err != nil {
		t.Fatalf("the lock of a dead process stays: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}

// A child that was forked while the study ran holds the same open file for as long as it lives.
func TestReleasedLockIsFreeThoughAForkedChildLives(t *testing.T) {
	s := temporary(t)
	create(t, s, "s-1")
	lock, err := s.Lock("s-1")
	if err != nil {
		t.Fatal(err)
	}
	child, err := unix.Dup(int(lock.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(child)
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if s.Running("s-1") {
		t.Error("a released study is seen running")
	}
	again, err := s.Lock("s-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}

func TestMessagesAreReceivedExactlyOnce(t *testing.T) {
	s := temporary(t)
	create(t, s, "s-1")
	if events, err := s.Receive("s-1"); err != nil || len(events) != 0 {
		t.Fatalf("an empty inbox gives %v, %v", events, err)
	}
	var senders sync.WaitGroup
	for i := range 8 {
		senders.Go(func() {
			other, err := Open(s.Path(), PatienceRun) // its own connection, as another process has
			if err != nil {
				t.Error(err)
				return
			}
			defer other.Close()
			if err := other.Send("s-1", KindSubmission, map[string]any{"run": "c-1", "n": i}); err != nil {
				t.Error(err)
			}
		})
	}
	seen := map[string]bool{}
	for len(seen) < 8 && !t.Failed() {
		events, err := s.Receive("s-1")
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range events {
			if seen[string(event.Data)] || event.Run != "c-1" || event.Kind != KindSubmission {
				t.Fatalf("received %+v", event)
			}
			seen[string(event.Data)] = true
		}
	}
	senders.Wait()
	events, err := s.Events("s-1", 0)
	if err != nil || len(events) != 9 {
		t.Errorf("the log has %d events, %v (expected 9)", len(events), err)
	}
}

func TestClearRemovesOneStudyWhole(t *testing.T) {
	s := temporary(t)
	create(t, s, "s-1")
	create(t, s, "s-2")
	name, err := s.Put("s-1", []byte("code"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Clear("s-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get("s-1", name); err == nil {
		t.Error("bytes of a removed study are there")
	}
	var left int
	if err := s.db.QueryRow("SELECT count(*) FROM events WHERE study = 's-1'").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d events are left, %v", left, err)
	}
	if _, err := s.Study("s-2"); err != nil {
		t.Errorf("another study went too: %v", err)
	}
	if err := s.Clear("s-1"); codeOf(err) != card.CodeNotFound {
		t.Errorf("clearing it again gives %v", err)
	}
}

// Readers never wait for the writer, and see whole steps only.
func TestReadersSeeWholeStepsWhileAnotherWrites(t *testing.T) {
	s := temporary(t)
	create(t, s, "s-1")
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			reader, err := OpenExisting(s.Path(), PatienceCall)
			if err != nil {
				t.Error(err)
				return
			}
			defer reader.Close()
			for {
				select {
				case <-stop:
					return
				default:
				}
				events, err := reader.Events("s-1", 0)
				if err != nil || len(events)%2 != 1 {
					t.Errorf("a reader saw %d events, %v (expected the first and pairs)", len(events), err)
					return
				}
			}
		})
	}
	for i := range 50 {
		if _, err := s.Append("s-1", Entry{Kind: KindVerdict, Data: i}, Entry{Kind: KindSpend, Data: i}); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	readers.Wait()
}
