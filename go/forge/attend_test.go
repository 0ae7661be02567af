package forge

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/store"
)

// guests opens a store as another process does.
func guests(t *testing.T, path string) *store.Store {
	t.Helper()
	s, err := store.Open(path, store.PatienceRun)
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

// bring submits a candidate and waits for its answer, polling the study as the user's process does.
func bring(t *testing.T, study *Study, s *store.Store, run string, parent int, candidate card.Candidate) *Answer {
	t.Helper()
	candidate.Author = "agent"
	if _, err := Submit(s, "s-test", Submission{Run: run, Parent: parent, Candidate: candidate, By: "agent"}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if study != nil {
			poll := study.Poll(10 * time.Millisecond)
			if poll.State == StateFailed {
				t.Fatal(poll.Error)
			}
		}
		answer, err := AnswerOf(s, "s-test", run, candidate.ID)
		if err != nil {
			t.Fatal(err)
		}
		if answer.State != AnswerWaiting {
			return answer
		}
	}
	t.Fatal("no answer came")
	return nil
}

func attending(t *testing.T, path string, j Judge, cards ...*card.Card) *Study {
	t.Helper()
	config := configFor(t, path, j, Settings{Candidates: 4, Attend: true}, cards...)
	config.Proposer = nil
	s, err := Start(config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The whole way of a candidate from outside: a study that a search has ended is opened again, judges what is brought, card by card as it comes, and
// makes the better one its winner. The search's own verdict on when it was done stays.
func TestAStudyThatAttendsJudgesWhatIsBroughtAndConfirmsTheBest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	cards := []*card.Card{reluCard("c-00000001", 0.5), reluCard("c-00000002", 0.4)}
	run1(t, configFor(t, path, tableFor(t), Settings{Candidates: 4}, cards...))
	before := view(t, path)
	j := tableFor(t)
	study := attending(t, path, j, cards...)
	s := guests(t, path)
	best := gridCandidate("rows", 4, 2, "by hand")
	first := bring(t, study, s, "c-00000001", 1, best)
	if first.State != AnswerJudged || first.Node != 5 || first.Verdict.Status != card.OK || first.Best != first.Verdict.Cost {
		t.Fatalf("the answer is %+v", first)
	}
	wrong := bring(t, study, s, "c-00000002", 0, gridCandidate("plain", 4, 0, "wrong"))
	if wrong.Verdict.Status != card.WrongValue || wrong.Node != 5 || wrong.Best >= 1 {
		t.Errorf("the answer to a wrong one is %+v", wrong)
	}
	if again := bring(t, study, s, "c-00000001", 0, best); again.Node != 5 || len(j.judged) != 2 {
		t.Errorf("a candidate that is known has the answer %+v, and %v was judged", again, j.judged)
	}
	if brief, err := Brief(s, "s-test", "c-00000001", 5, nobody); err != nil || brief.Lineage[1].Node != 5 || brief.Lineage[1].Candidate.Source != best.Source ||
		!brief.Seen(best.ID) || brief.Facts.Target != "host" {
		t.Errorf("the brief below it is %+v, %v", brief, err)
	}
	study.Conclude()
	study.Conclude() // twice is once
	drive(t, study, nil)
	v := view(t, path)
	if v.Runs[0].Winners[0].Node != 5 || v.Runs[0].Why != before.Runs[0].Why || v.Runs[1].Why != before.Runs[1].Why || v.State != StateDone {
		t.Errorf("afterwards the study is %+v (before: %+v)", v, before)
	}
	if j.shut != 1 || j.opened["c-00000001"]+j.opened["c-00000002"] != 0 {
		t.Errorf("the judge was shut %d times and holds %v", j.shut, j.opened)
	}
	answer, err := AnswerOf(s, "s-test", "c-00000001", best.ID)
	if err != nil || len(answer.Confirmed) == 0 || !slices.Equal(answer.Serves, []string{"v0", "v1"}) {
		t.Errorf("in the end the answer is %+v, %v", answer, err)
	}
	table := tableFor(t)
	run1(t, configFor(t, path, table, Settings{Candidates: 4}, cards...)) // the search has nothing more to do
	if len(table.judged) != 0 {
		t.Errorf("the next search judged %v", table.judged)
	}
}

func nobody(*card.Card) propose.Facts { return propose.Facts{} }

// A study that no search has ended is not called searched because guests were there.
func TestAttendingLeavesAnUnfinishedSearchUnfinished(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	c := reluCard("c-00000001", 0.5)
	study := attending(t, path, tableFor(t), c)
	s := guests(t, path)
	bring(t, study, s, c.ID, 0, gridCandidate("rows", 0, 0, "mine"))
	study.Conclude()
	drive(t, study, nil)
	if v := view(t, path); v.Runs[0].State != runStarted || len(v.Runs[0].Winners) != 2 {
		t.Errorf("afterwards the run is %+v", v.Runs[0])
	}
	table := tableFor(t)
	run1(t, configFor(t, path, table, Settings{Candidates: 4}, c))
	if v := view(t, path); v.Runs[0].State != runEnded || len(table.judged) != 3 {
		t.Errorf("the search judged %v, and the run is %+v", table.judged, v.Runs[0])
	}
}

// Proposals of a search that was killed are not asked for again while nobody proposes; the tree goes on without them.
func TestAttendingDropsProposalsThatNobodyMakes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	c := reluCard("c-00000001", 0.5)
	killed := tableFor(t)
	config := configFor(t, path, killed, Settings{Candidates: 6, Width: 3}, c)
	started := make(chan *Study, 1)
	killed.before = func(card.Candidate) {
		if len(killed.judged) == 2 {
			(<-started).Cancel(true)
		}
	}
	first, err := Start(config)
	if err != nil {
		t.Fatal(err)
	}
	started <- first
	drive(t, first, nil)
	study := attending(t, path, tableFor(t), c)
	s := guests(t, path)
	if answer := bring(t, study, s, c.ID, 0, gridCandidate("rows", 4, 2, "mine")); answer.State != AnswerJudged {
		t.Errorf("the answer is %+v", answer)
	}
	study.Conclude()
	drive(t, study, nil)
	run1(t, configFor(t, path, tableFor(t), Settings{Candidates: 6, Width: 3}, c))
	if v := view(t, path); v.Runs[0].State != runEnded || len(v.Runs[0].Nodes) < 7 {
		t.Errorf("the run is %+v", v.Runs[0])
	}
}

// A card that cannot be judged is an answer, the same candidate may come again, and other cards are judged all the while.
func TestACardThatCannotBeJudgedIsAnAnswer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	cards := []*card.Card{reluCard("c-00000001", 0.5), reluCard("c-00000002", 0.4)}
	j := tableFor(t)
	broken := true
	j.open = func(c *card.Card) error {
		if c.ID == "c-00000001" && broken {
			return card.Fail(card.CodeReferee, "", "no memory for its inputs")
		}
		return nil
	}
	study := attending(t, path, j, cards...)
	s := guests(t, path)
	mine := gridCandidate("rows", 0, 0, "mine")
	if answer := bring(t, study, s, "c-00000001", 0, mine); answer.State != AnswerUnjudged || answer.Node != 0 || answer.Why == "" {
		t.Errorf("the answer is %+v", answer)
	}
	if answer := bring(t, study, s, "c-00000002", 0, mine); answer.State != AnswerJudged {
		t.Errorf("the answer on another card is %+v", answer)
	}
	broken = false
	if answer := bring(t, study, s, "c-00000001", 0, mine); answer.State != AnswerJudged {
		t.Errorf("the answer afterwards is %+v", answer)
	}
	study.Cancel(true)
	drive(t, study, nil)
}

// A candidate that was taken up when its session was killed is judged by the next one, before anything else comes.
func TestACandidateInFlightIsJudgedByTheNextSession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	c := reluCard("c-00000001", 0.5)
	j := tableFor(t)
	study := attending(t, path, j, c)
	j.before = func(card.Candidate) { study.Cancel(true) }
	s := guests(t, path)
	mine := gridCandidate("rows", 0, 0, "mine")
	mine.Author = "person"
	if _, err := Submit(s, "s-test", Submission{Run: c.ID, Candidate: mine}); err != nil {
		t.Fatal(err)
	}
	drive(t, study, nil)
	if count, err := Unjudged(s, "s-test"); err != nil || count != 1 {
		t.Errorf("%d candidates wait, %v (expected 1)", count, err)
	}
	next := attending(t, path, tableFor(t), c)
	next.Conclude()
	drive(t, next, nil)
	if answer, err := AnswerOf(s, "s-test", c.ID, mine.ID); err != nil || answer.State != AnswerJudged {
		t.Errorf("the answer is %+v, %v", answer, err)
	}
	if count, err := Unjudged(s, "s-test"); err != nil || count != 0 {
		t.Errorf("%d candidates wait, %v (expected none)", count, err)
	}
}

func TestAnswersAndBriefsNameWhatIsNotThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	c := reluCard("c-00000001", 0.5)
	run1(t, configFor(t, path, tableFor(t), Settings{Candidates: 2}, c))
	s := guests(t, path)
	code := func(err error) string {
		if err == nil {
			return ""
		}
		return card.AsError(err).Code
	}
	_, unknown := AnswerOf(s, "s-test", c.ID, "k-000000000000")
	_, noCard := Brief(s, "s-test", "c-99999999", 0, nobody)
	_, noNode := Brief(s, "s-test", c.ID, 99, nobody)
	large := gridCandidate("rows", 0, 0, "")
	large.Source = fmt.Sprintf("%*s", MaxSource+1, "x")
	large.ID = card.CandidateID(large.Source, large.Spec)
	_, tooLarge := Submit(s, "s-test", Submission{Run: c.ID, Candidate: large})
	if code(unknown) != card.CodeNotFound || code(noCard) != card.CodeNotFound || code(noNode) != card.CodeNotFound || code(tooLarge) != card.CodeRequest {
		t.Errorf("found %v; %v; %v; %v", unknown, noCard, noNode, tooLarge)
	}
}
