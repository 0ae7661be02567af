package forge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/judge"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/budget"
	"github.com/kernelforge/kernelforge/go/store"
)

// The test binary as a process that runs a study and dies of SIGKILL at the n-th look at the clock: the clock is read between all steps.
const (
	childRuns  = "KF_TEST_STUDY"  // path of the store
	childKill  = "KF_TEST_KILL"   // n; 0: never
	childWidth = "KF_TEST_WIDTH"  // proposals side by side
	childLog   = "KF_TEST_JUDGED" // file that gets one line for each judgement that began
)

func runAsChild() {
	if err := childMain(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func childMain() error {
	path := os.Getenv(childRuns)
	kill, err := strconv.Atoi(os.Getenv(childKill))
	if err != nil {
		return err
	}
	width, err := strconv.Atoi(os.Getenv(childWidth))
	if err != nil {
		return err
	}
	table, err := newTable(filepath.Join("testdata", "costs.tsv"))
	if err != nil {
		return err
	}
	table.before = func(c card.Candidate) {
		file, err := os.OpenFile(os.Getenv(childLog), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err == nil {
			_, err = fmt.Fprintln(file, c.ID)
			err = errors.Join(err, file.Close())
		}
		if err != nil {
			panic(err)
		}
	}
	s, err := store.Open(path, store.PatienceRun)
	if err != nil {
		return err
	}
	looks, tick := 0, clock()
	var authors []Author
	if url := os.Getenv(childAuthor); url != "" {
		authors = []Author{model(url, budget.Limits{}, "")}
	}
	running, err := Start(Config{Store: s, Authors: authors, Study: study(reluCard("c-00000001", 0.5), reluCard("c-00000002", 0.3)),
		Settings: Settings{Seed: 3, Candidates: 16, Width: width, Scratch: filepath.Dir(path)}, Proposer: grid{}, Facts: propose.Facts{Target: "host"},
		Judge: func(judge.Referee) (Judge, error) { return table, nil },
		Now: func() time.Time {
			if looks++; looks == kill {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			return tick()
		}})
	if err != nil {
		return err
	}
	for {
		poll := running.Poll(100 * time.Millisecond)
		for _, body := range poll.Tasks {
			var head struct{ Task int }
			if err := json.Unmarshal(body, &head); err != nil {
				return err
			}
			text, err := json.Marshal(modelTimes(1.5))
			if err != nil {
				return err
			}
			if err := running.Answer(head.Task, text, nil); err != nil {
				return err
			}
		}
		if poll.State == StateFailed {
			return poll.Error
		}
		if poll.State == StateDone {
			<-running.Ended()
			fmt.Println("looks", looks)
			return nil
		}
	}
}

// child runs the study in a process of its own, which is killed at a look at the clock or after a time; 0: neither. It says whether that was
// killed, and else how often the clock was read.
func child(t *testing.T, path string, kill int, after time.Duration, width int) (killed bool, looks int) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), childRuns+"="+path, fmt.Sprintf("%s=%d", childKill, kill), fmt.Sprintf("%s=%d", childWidth, width),
		childLog+"="+path+".judged")
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if after > 0 {
		timer := time.AfterFunc(after, func() { _ = command.Process.Kill() }) // one that has ended is not there any more
		defer timer.Stop()
	}
	err := command.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true, 0
	}
	if err != nil {
		t.Fatalf("the child failed: %v\n%s", err, &said)
	}
	if _, err := fmt.Sscanf(said.String(), "looks %d", &looks); err != nil {
		t.Fatalf("the child said %q", &said)
	}
	return false, looks
}

// whole runs the study in one go: what every killed one must come to. It also says how often the clock was read, and how long it took.
func whole(t *testing.T, width int) (account, int, time.Duration) {
	t.Helper()
	path, began := filepath.Join(t.TempDir(), "whole.db"), time.Now()
	killed, looks := child(t, path, 0, 0, width)
	if killed {
		t.Fatal("killed without being asked")
	}
	return read(t, path, 0), looks, time.Since(began)
}

// compare finishes a study that was killed `kills` times, and compares it with one that was not, bit for bit. Nothing that had its verdict may
// have been judged again: each kill costs at most the candidate in flight.
func compare(t *testing.T, want account, path string, kills, width int) {
	t.Helper()
	if killed, _ := child(t, path, 0, 0, width); killed {
		t.Fatal("killed without being asked")
	}
	found := read(t, path, 0)
	found.mustEqual(t, want)
	log, err := os.ReadFile(path + ".judged")
	if err != nil {
		t.Fatal(err)
	}
	began, nodes := bytes.Count(log, []byte("\n")), verdicts(found.events)
	if began > nodes+kills {
		t.Errorf("%d judgements began for %d nodes and %d kills: a node was judged twice", began, nodes, kills)
	}
}

// With a recorded cost table the same seed gives the same trees and winners, wherever the process is killed: by turns at a look at the clock, which
// is read between all steps, and at a moment that has nothing to do with the steps. 8 points, or KF_POINTS (bench/kills.py runs 50).
func TestSameSeedGivesTheSameTreeAfterAKillAtAnyPoint(t *testing.T) {
	points := 8
	if text := os.Getenv("KF_POINTS"); text != "" {
		var err error
		if points, err = strconv.Atoi(text); err != nil {
			t.Fatalf("read KF_POINTS: %v", err)
		}
	}
	seed, chance := drawn(t)
	wholes := map[int]account{}
	looks, took := map[int]int{}, map[int]time.Duration{}
	for width := 1; width <= 3; width += 2 {
		wholes[width], looks[width], took[width] = whole(t, width)
	}
	early := 0 // the process was killed before there was a store
	for point := range points {
		path, width := filepath.Join(t.TempDir(), "killed.db"), 1+point/2%2*2
		var at int
		var after time.Duration
		for killed, first := false, true; !killed; first = false {
			if !first && point%2 == 0 {
				t.Fatalf("KF_SEED=%d: not killed at look %d of %d", seed, at, looks[width])
			}
			if point%2 == 0 {
				at = 1 + chance.IntN(looks[width])
			} else { // one that has ended before it could be killed begins again
				after = time.Duration(chance.Int64N(int64(took[width])))
				for _, name := range []string{path, path + "-wal", path + "-shm", path + ".judged"} {
					if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
						t.Fatal(err)
					}
				}
			}
			killed, _ = child(t, path, at, after, width)
		}
		if _, err := os.Stat(path); err != nil {
			early++
		}
		if compare(t, wholes[width], path, 1, width); t.Failed() {
			t.Fatalf("KF_SEED=%d, point %d: look %d, after %s", seed, point, at, after)
		}
	}
	if t.Logf("%d points, seed %d, %d of them before there was a store", points, seed, early); early > points/2 {
		t.Errorf("%d of %d kills came before there was a store: they show nothing", early, points)
	}
}

// One study that is killed twelve times in a row, with proposals side by side.
func TestSameSeedGivesTheSameTreeAfterManyKills(t *testing.T) {
	want, _, _ := whole(t, 3)
	path := filepath.Join(t.TempDir(), "killed.db")
	for kills := range 12 {
		if killed, _ := child(t, path, 3+kills%4, 0, 3); !killed {
			t.Fatalf("done after %d kills (expected 12)", kills)
		}
	}
	compare(t, want, path, 12, 3)
}

func TestSameSeedGivesTheSameTreeAndAnotherSeedAnother(t *testing.T) {
	trees := map[int64][]string{}
	for _, seed := range []int64{1, 1, 2} {
		path := filepath.Join(t.TempDir(), "store.db")
		run1(t, configFor(t, path, tableFor(t), Settings{Seed: seed, Candidates: 40}, reluCard("c-00000001", 0.5)))
		trees[seed] = append(trees[seed], treeText(view(t, path).Runs[0]))
	}
	if trees[1][0] != trees[1][1] {
		t.Errorf("one seed, two trees:\n%s", cmp.Diff(trees[1][0], trees[1][1]))
	}
	if trees[1][0] == trees[2][0] {
		t.Error("two seeds, one tree")
	}
}

func TestFinishKeepsTheCandidateInFlightAndResumes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	table := tableFor(t)
	var s *Study
	table.before = func(card.Candidate) {
		if len(table.judged) == 4 { // while the fifth is judged
			s.Cancel(false)
		}
	}
	ready := make(chan struct{})
	table.open = func(*card.Card) error { <-ready; return nil }
	s, err := Start(configFor(t, path, table, Settings{Candidates: 12}, reluCard("c-00000001", 0.5)))
	if err != nil {
		t.Fatal(err)
	}
	close(ready)
	if _, last := drive(t, s, nil); last.State != StateDone || last.Error != nil {
		t.Fatalf("it ended with %+v", last)
	}
	v := view(t, path)
	if len(v.Runs[0].Nodes) != 6 || v.State != stateStopped || v.Runs[0].State != runStarted || table.shut != 1 {
		t.Fatalf("stopped with %d nodes, study %s, run %s, %d judges shut (expected 6, stopped, started, 1)",
			len(v.Runs[0].Nodes), v.State, v.Runs[0].State, table.shut)
	}
	second := tableFor(t)
	run1(t, configFor(t, path, second, Settings{Candidates: 12}, reluCard("c-00000001", 0.5)))
	if v = view(t, path); len(v.Runs[0].Nodes) != 13 || v.State != StateDone || len(second.judged) != 7 {
		t.Errorf("resumed to %d nodes, %s, with %d judged (expected 13, done, 7)", len(v.Runs[0].Nodes), v.State, len(second.judged))
	}
}

func TestStopNowLosesOnlyTheCandidateInFlight(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	table := tableFor(t)
	var s *Study
	ready := make(chan struct{})
	table.open = func(*card.Card) error { <-ready; return nil }
	table.before = func(card.Candidate) {
		if len(table.judged) == 4 {
			s.Cancel(true)
		}
	}
	config := configFor(t, path, table, Settings{Candidates: 12}, reluCard("c-00000001", 0.5))
	config.Judge = func(referee judge.Referee) (Judge, error) {
		table.closes = referee.Release // which nobody answers any more
		return table, nil
	}
	s, err := Start(config)
	if err != nil {
		t.Fatal(err)
	}
	close(ready)
	drive(t, s, nil)
	if v := view(t, path); len(v.Runs[0].Nodes) != 5 || v.State != stateStopped || v.Running {
		t.Errorf("stopped with %d nodes, study %s (expected 5, stopped)", len(v.Runs[0].Nodes), v.State)
	}
	other := filepath.Join(t.TempDir(), "whole.db")
	run1(t, configFor(t, path, tableFor(t), Settings{Candidates: 12}, reluCard("c-00000001", 0.5)))
	run1(t, configFor(t, other, tableFor(t), Settings{Candidates: 12}, reluCard("c-00000001", 0.5)))
	if diff := cmp.Diff(treeText(view(t, other).Runs[0]), treeText(view(t, path).Runs[0])); diff != "" {
		t.Errorf("-whole +stopped and resumed:\n%s", diff)
	}
}

func TestFinishedStudyIsDoneAtOnceAndALargerBudgetSearchesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	start := func(candidates int) (*tableJudge, *StudyView) {
		table := tableFor(t)
		run1(t, configFor(t, path, table, Settings{Candidates: candidates}, reluCard("c-00000001", 0.5)))
		return table, view(t, path)
	}
	_, first := start(10)
	again, second := start(10)
	if len(again.judged) != 0 || again.shut != 0 {
		t.Errorf("%d candidates were judged again", len(again.judged))
	}
	if diff := cmp.Diff(first.Runs, second.Runs); diff != "" {
		t.Errorf("the second start changed the runs:\n%s", diff)
	}
	more, third := start(20)
	if len(more.judged) != 10 || len(third.Runs[0].Nodes) != 21 || third.State != StateDone {
		t.Errorf("with twice the budget %d were judged, %d nodes, %s", len(more.judged), len(third.Runs[0].Nodes), third.State)
	}
}

// A profile that is taken again may number the same variants in another order.
func TestResumeWithVariantsNumberedAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	first := tableFor(t)
	run1(t, configFor(t, path, first, Settings{Candidates: 6}, reluCard("c-00000001", 0.5)))
	renumbered := reluCard("c-00000001", 0.5)
	renumbered.Variants[0].Call, renumbered.Variants[1].Call = renumbered.Variants[1].Call, renumbered.Variants[0].Call
	second := tableFor(t)
	run1(t, configFor(t, path, second, Settings{Candidates: 30}, renumbered))
	v := view(t, path)
	for _, winner := range v.Runs[0].Winners {
		want := map[string]int64{"v0": 1024, "v1": 4096}[winner.Variant] // the store's numbers stay those of the first session
		if got := winner.Call.Args[0].Sizes[0]; got != want {
			t.Errorf("the winner of %s has size %d (expected %d)", winner.Variant, got, want)
		}
	}
	if len(v.Runs[0].Winners) != 2 {
		t.Errorf("%d winners (expected 2)", len(v.Runs[0].Winners))
	}
}

func TestStudyAboutSomethingElseIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	run1(t, configFor(t, path, tableFor(t), Settings{Candidates: 3}, reluCard("c-00000001", 0.5)))
	for name, change := range map[string]func(*Config){
		"torch `2.15.0` (now: `2.16.0`)": func(c *Config) { c.Study.Pins["torch"] = "2.16.0" },
		"threads `2` (now: `<nil>`)":     func(c *Config) { delete(c.Study.Pins, "threads") },
		"card `c-00000009`":              func(c *Config) { c.Study.Cards = []*card.Card{reluCard("c-00000009", 0.5)} },
		"searched for other shapes":      func(c *Config) { c.Study.Cards[0].Variants[0].Call.Args[0].Sizes[0]++ },
		"for the target `host`":          func(c *Config) { c.Study.Target = "cuda" },
	} {
		config := configFor(t, path, tableFor(t), Settings{}, reluCard("c-00000001", 0.5))
		change(&config)
		_, err := Start(config)
		if err == nil || card.AsError(err).Code != card.CodeMismatch || !strings.Contains(err.Error(), name) || card.AsError(err).Hint == "" {
			t.Errorf("found %v (expected a mismatch: %s)", err, name)
		}
		if err := config.Store.Close(); err != nil {
			t.Error(err)
		}
	}
	if view(t, path).Running {
		t.Error("a refused start kept the lock")
	}
}
