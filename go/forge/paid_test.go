package forge

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/budget"
	"github.com/kernelforge/kernelforge/go/propose/given"
	"github.com/kernelforge/kernelforge/go/propose/llm"
	"github.com/kernelforge/kernelforge/go/propose/llm/scripted"
	"github.com/kernelforge/kernelforge/go/store"
)

// childAuthor is the address of a server whose model competes with the grid in a child's study.
const childAuthor = "KF_TEST_AUTHOR"

// kept is a Ledger as go/propose/llm asks for one.
type kept struct{ *Ledger }

func (k kept) Reply(key string) (reply llm.Reply, found bool, err error) {
	text, found, err := k.Ledger.Reply(key)
	if err == nil && found {
		err = json.Unmarshal(text, &reply)
	}
	return reply, found, err
}

func (k kept) Keep(key string, request []byte, reply llm.Reply) error {
	text, err := json.Marshal(reply)
	if err != nil {
		return err
	}
	return k.Ledger.Keep(request, text, Call{Reply: key, Model: reply.Model, TokensIn: reply.TokensIn, TokensOut: reply.TokensOut, CallSeconds: reply.WallS}, reply.USD)
}

func (k kept) Lost(spent budget.Amount) error {
	return k.Ledger.Lost(spent.TokensIn, spent.TokensOut, spent.USD)
}

// model is an author behind a server.
func model(url string, limits budget.Limits, priceFile string) Author {
	return Author{Name: "openai:scripted", Make: func(l *Ledger) (propose.Proposer, error) {
		spent := l.Spent()
		shared, err := budget.New(limits, budget.Amount{TokensIn: spent.TokensIn, TokensOut: spent.TokensOut, USD: spent.USD}, 0, nil)
		if err != nil {
			return nil, err
		}
		made, err := llm.New(llm.Config{Model: "scripted", BaseURL: url, Budget: shared, PriceFile: priceFile, MaxTokens: 2000}, kept{l})
		if err != nil {
			return nil, err
		}
		return made, nil
	}}
}

// replies are different candidates, with one in four that does not parse.
func replies(count, delayMS int) []scripted.Step {
	steps := make([]scripted.Step, count)
	for i := range steps {
		text := fmt.Sprintf("```cpp\n// idea %d\n```\n\n```json\n{\"change\": \"idea %d\", \"spec\": {\"schema\": 1, \"constants\": {}, \"workspaces\": [], "+
			"\"kernels\": [{\"entry\": \"kf_main\", \"work\": \"1\", \"grain\": \"1\", \"args\": [{\"slot\": \"self\"}]}]}}\n```\n", i, i)
		if i%4 == 3 {
			text = "I would rather talk about it."
		}
		steps[i] = scripted.Step{Times: 1, Text: text, DelayMS: delayMS}
	}
	return steps
}

// paidTwice names a request that got its whole reply more than once.
func paidTwice(records []scripted.Record) string {
	seen := map[string]bool{}
	for _, r := range records {
		if r.Whole && seen[r.Body] {
			return r.Body
		}
		seen[r.Body] = seen[r.Body] || r.Whole
	}
	return ""
}

// Wherever the process is killed: no call that may have been paid is made again, what was paid is in the store, and the study comes to its end.
// 20 points with KF_EVERY_POINT, else 3.
func TestNoCallIsPaidTwiceAfterAKillAtAnyPoint(t *testing.T) {
	points := 3
	if os.Getenv(everyPoint) != "" {
		points = 20
	}
	seed, chance := drawn(t)
	killed, asked := 0, 0
	whole := httptest.NewServer(scripted.New(replies(400, 3)...))
	t.Setenv(childAuthor, whole.URL+"/v1")
	began := time.Now()
	if dead, _ := child(t, filepath.Join(t.TempDir(), "whole.db"), 0, 0, 1); dead {
		t.Fatal("killed without being asked")
	}
	took := time.Since(began)
	whole.Close()
	for point := 0; point < points || killed < points/2 && point < 8*points; point++ { // one whose child had ended, or had not begun to ask, shows nothing
		path := filepath.Join(t.TempDir(), "killed.db")
		server := scripted.New(replies(400, 3)...)
		http := httptest.NewServer(server)
		t.Setenv(childAuthor, http.URL+"/v1")
		kills := 0
		for range 4 {
			before := len(server.Records())
			dead, _ := child(t, path, 0, took/5+time.Duration(chance.Int64N(int64(took))), 1)
			if !dead {
				break
			}
			if kills++; len(server.Records()) > before {
				killed++
			}
		}
		if dead, _ := child(t, path, 0, 0, 1); dead {
			t.Fatal("killed without being asked")
		}
		http.Close()
		records := server.Records()
		if twice := paidTwice(records); twice != "" {
			t.Errorf("seed %d, point %d, %d kills: request %s was paid twice", seed, point, kills, twice)
		}
		asked += len(records)
		v := view(t, path)
		if v.State != StateDone || v.Spend.Calls == 0 || v.Spend.Calls > len(records) || v.Spend.Calls+kills*2*defaultInFlight < len(records) {
			t.Errorf("seed %d, point %d, %d kills: %s, %d calls are kept of %d", seed, point, kills, v.State, v.Spend.Calls, len(records))
		}
	}
	if t.Logf("seed %d: %d calls, %d kills after at least one of them", seed, asked, killed); killed < points/2 {
		t.Errorf("%d of the kills came after a call: too few to show anything", killed)
	}
}

// With 8 calls in flight a budget in USD holds, to the call: each was checked with its worst case before it was made.
func TestABudgetHoldsWithEightCallsInFlight(t *testing.T) {
	prices := filepath.Join(t.TempDir(), "prices.json")
	table := `{"schema": 1, "date": "2026-11-30", "mean_reply_tokens": 100, "models": {"scripted": {"usd_per_mtok_in": 1, "usd_per_mtok_out": 10}}}`
	if err := os.WriteFile(prices, []byte(table), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []float64{0, 0.1} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			server := scripted.New(replies(400, 2)...)
			http := httptest.NewServer(server)
			defer http.Close()
			path := filepath.Join(t.TempDir(), "store.db")
			table := tableFor(t)
			table.table["llm 0 0"] = card.Verdict{Status: card.OK, Cost: 0.9}
			config := configFor(t, path, table, Settings{Candidates: 60, InFlight: 8, MaxCost: &limit}, reluCard("c-00000001", 0.5))
			if limit > 0 {
				config.Proposer = given.Candidates(nil) // all that is asked for is asked of the model
			}
			config.Authors = []Author{model(http.URL+"/v1", budget.Limits{USD: &limit}, prices)}
			if _, last := run1(t, config); last.State != StateDone || last.Error != nil {
				t.Fatalf("it ended with %+v", last)
			}
			v, calls := view(t, path), len(server.Records())
			if (len(v.Runs[0].Nodes) == 61) != (limit == 0) || v.Spend.Calls != calls || v.Spend.USD > limit {
				t.Errorf("%d nodes, %d of %d calls are kept, %.4f USD (expected 61 nodes of the grid alone, at most %v USD)", len(v.Runs[0].Nodes), v.Spend.Calls, calls, v.Spend.USD, limit)
			}
			if len(v.Stopped) != 1 || !strings.Contains(v.Stopped[0].Why, "budget") {
				t.Errorf("told %+v", v.Stopped)
			}
			if (limit == 0) != (calls == 0) || limit > 0 && v.Spend.USD < limit/2 {
				t.Errorf("%d calls, %.4f of %v USD", calls, v.Spend.USD, limit)
			}
		})
	}
}

// What is forecast for an author alone, without failures, is within a quarter of what it then takes.
func TestTheForecastIsNearTheSpend(t *testing.T) {
	steps := []scripted.Step{}
	for i, step := range replies(80, 0) {
		if i%4 != 3 {
			step.Tokens = 100
			steps = append(steps, step)
		}
	}
	prices := filepath.Join(t.TempDir(), "prices.json")
	text := `{"schema": 1, "date": "2026-11-30", "mean_reply_tokens": 100, "models": {"scripted": {"usd_per_mtok_in": 1, "usd_per_mtok_out": 10}}}`
	if err := os.WriteFile(prices, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	http := httptest.NewServer(scripted.New(steps...))
	defer http.Close()
	path := filepath.Join(t.TempDir(), "store.db")
	table := tableFor(t)
	table.table["llm 0 0"] = card.Verdict{Status: card.OK, Cost: 0.9}
	config := hired(configFor(t, path, table, Settings{Candidates: 30}, reluCard("c-00000001", 0.5)), nil)
	config.Authors = []Author{model(http.URL+"/v1", budget.Limits{}, prices)}
	if _, last := run1(t, config); last.State != StateDone || last.Error != nil {
		t.Fatalf("it ended with %+v", last)
	}
	v := view(t, path)
	if len(v.Forecast) != 1 || v.Forecast[0].Calls != 30 || v.Spend.Calls != 30 {
		t.Fatalf("forecast %+v, spent %+v (expected 30 calls)", v.Forecast, v.Spend)
	}
	if ratio := v.Forecast[0].USD / v.Spend.USD; ratio < 0.75 || ratio > 1.25 {
		t.Errorf("forecast %.4f USD, spent %.4f", v.Forecast[0].USD, v.Spend.USD)
	}
}

// What a reply that broke off may have cost is spent in sessions after this one, too.
func TestWhatBrokeOffIsSpentInTheNextSession(t *testing.T) {
	steps := append([]scripted.Step{{Times: 1, Do: "half", Text: "Here is the kernel that was asked for"}}, replies(40, 0)...)
	http := httptest.NewServer(scripted.New(steps...))
	defer http.Close()
	path := filepath.Join(t.TempDir(), "store.db")
	table := tableFor(t)
	table.table["llm 0 0"] = card.Verdict{Status: card.OK, Cost: 0.9}
	var began []Spent
	for candidates := 3; candidates <= 6; candidates += 3 {
		config := hired(configFor(t, path, table, Settings{Candidates: candidates}, reluCard("c-00000001", 0.5)), nil)
		author := model(http.URL+"/v1", budget.Limits{}, "")
		make := author.Make
		author.Make = func(l *Ledger) (propose.Proposer, error) {
			began = append(began, l.Spent())
			return make(l)
		}
		config.Authors = []Author{author}
		if _, last := run1(t, config); last.State != StateDone || last.Error != nil {
			t.Fatalf("it ended with %+v", last)
		}
		if candidates > 3 {
			continue
		}
		var in, broken int64
		log, err := store.Open(path, store.PatienceRun)
		if err != nil {
			t.Fatal(err)
		}
		events, err := log.Events("s-test", 0)
		if err := errors.Join(err, log.Close()); err != nil {
			t.Fatal(err)
		}
		for _, event := range events {
			if data, err := decode[spendEvent](event); err == nil && event.Kind == store.KindSpend && data.Call != nil {
				in += data.TokensIn
				if data.What == "lost" {
					broken += data.TokensIn
				}
			}
		}
		if v := view(t, path); broken == 0 || v.Spend.TokensIn != in || v.Spend.Calls == 0 {
			t.Errorf("spent %+v, %d tokens in by the log, %d of them for what broke off", v.Spend, in, broken)
		}
		began = append(began, Spent{TokensIn: in})
	}
	if len(began) != 3 || began[0].TokensIn != 0 || began[2].TokensIn != began[1].TokensIn {
		t.Errorf("the sessions began with %+v (expected the second with what the first spent)", began)
	}
}
