package budget

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
)

func ptr[T any](x T) *T { return &x }

func made(t testing.TB, limits Limits, spent Amount) *Budget {
	t.Helper()
	b, err := New(limits, spent, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestEachLimitRefusesTheStepThatCouldPassIt(t *testing.T) {
	for name, c := range map[string]struct {
		limits Limits
		step   Amount
		fits   int
	}{
		"candidates": {Limits{Candidates: ptr(int64(3))}, Amount{Candidates: 1}, 3},
		"device_s":   {Limits{DeviceS: ptr(10.0)}, Amount{DeviceS: 4}, 2},
		"tokens_in":  {Limits{TokensIn: ptr(int64(1000))}, Amount{TokensIn: 400, TokensOut: 5000}, 2},
		"tokens_out": {Limits{TokensOut: ptr(int64(1000))}, Amount{TokensIn: 5000, TokensOut: 500}, 2},
		"usd":        {Limits{USD: ptr(0.3)}, Amount{TokensIn: 1, USD: 0.1}, 3}, // 0.1 + 0.1 + 0.1 is above 0.3 in double
		"none":       {Limits{}, Amount{Candidates: 1 << 40, DeviceS: 1e9, TokensIn: 1 << 40, TokensOut: 1 << 40, USD: 1e9}, 5},
	} {
		b := made(t, c.limits, Amount{})
		fits := 0
		var err error
		for range 5 {
			var held *Reservation
			if held, err = b.Reserve(c.step); err != nil {
				break
			}
			held.Settle(c.step)
			fits++
		}
		if fits != c.fits || (fits < 5) != errors.Is(err, propose.ErrBudget) {
			t.Errorf("%s: %d steps fit (expected %d), then %v", name, fits, c.fits, err)
		}
		if refused, ok := errors.AsType[*Refused](err); ok && (refused.Limit != name || !strings.Contains(err.Error(), "`"+name+"`")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestZeroUSDCallsNobodyAlsoForNothing(t *testing.T) {
	b := made(t, Limits{USD: ptr(0.0)}, Amount{})
	if _, err := b.Reserve(Amount{TokensIn: 10, TokensOut: 10}); !errors.Is(err, propose.ErrBudget) {
		t.Errorf("a free call: %v", err)
	}
	if _, err := b.Reserve(Amount{Candidates: 1, DeviceS: 3}); err != nil {
		t.Errorf("a candidate of a template: %v", err)
	}
}

func TestWhatWasSpentBeforeCounts(t *testing.T) {
	b := made(t, Limits{USD: ptr(1.0)}, Amount{USD: 0.95})
	if _, err := b.Reserve(Amount{USD: 0.1}); !errors.Is(err, propose.ErrBudget) {
		t.Errorf("found %v", err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	timed, err := New(Limits{WallS: ptr(60.0)}, Amount{}, 50*time.Second, clock)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := timed.Reserve(Amount{}); err != nil {
		t.Error(err)
	}
	now = now.Add(10 * time.Second)
	if _, err := timed.Reserve(Amount{}); !errors.Is(err, propose.ErrBudget) || !strings.Contains(err.Error(), "60 s of time") {
		t.Errorf("found %v", err)
	}
}

func TestALimitBelowZeroIsNone(t *testing.T) {
	for _, limits := range []Limits{{USD: ptr(-1.0)}, {Candidates: ptr(int64(-1))}, {WallS: ptr(-1.0)}} {
		if _, err := New(limits, Amount{}, 0, nil); err == nil || card.AsError(err).Code != card.CodeRequest {
			t.Errorf("%+v: %v", limits, err)
		}
	}
}

// Whatever steps take up to their worst case, in whatever order they settle, with many in flight: no limit is passed.
func TestStepsWithinTheirWorstCaseNeverPassALimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Float64Range(0.01, 5).Draw(t, "limit")
		b, _ := New(Limits{USD: &limit}, Amount{}, 0, nil)
		var held []*Reservation
		var worst []float64
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(held) < 8 && rapid.Bool().Draw(t, "begin") {
				w := rapid.Float64Range(0, 1).Draw(t, "worst")
				if r, err := b.Reserve(Amount{USD: w}); err == nil {
					held, worst = append(held, r), append(worst, w)
				}
			} else if len(held) > 0 {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				actual := rapid.Float64Range(0, 1).Draw(t, "part") * worst[i]
				held[i].Settle(Amount{USD: actual})
				held[i].Settle(Amount{USD: 100}) // only the first counts
				held, worst = append(held[:i], held[i+1:]...), append(worst[:i], worst[i+1:]...)
			}
			if spent := b.Spent().USD; spent > limit*(1+1e-9) {
				t.Fatalf("spent %v of %v", spent, limit)
			}
		}
	})
}

// Eight in flight, each of which takes twice what it said: what was held keeps the overshoot at one step.
func TestOvershootIsOneStepWithEightInFlight(t *testing.T) {
	limit, worst := 1.0, 0.02
	b := made(t, Limits{USD: &limit}, Amount{})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for {
				held, err := b.Wait(t.Context(), Amount{TokensIn: 1, USD: worst})
				if err != nil {
					return
				}
				held.Settle(Amount{TokensIn: 1, USD: worst * 1.1})
			}
		})
	}
	group.Wait()
	if spent := b.Spent().USD; spent < limit-worst*1.1 || spent > limit+worst {
		t.Errorf("spent %v of %v by steps of %v", spent, limit, worst)
	}
}

func TestAStepWaitsForThoseInFlight(t *testing.T) {
	b := made(t, Limits{USD: ptr(1.0)}, Amount{})
	first, err := b.Reserve(Amount{USD: 0.9})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error)
	go func() {
		held, err := b.Wait(context.Background(), Amount{USD: 0.5})
		if err == nil {
			held.Settle(Amount{})
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	first.Settle(Amount{USD: 0.1})
	if err := <-got; err != nil {
		t.Error(err)
	}
	if _, err := b.Wait(t.Context(), Amount{USD: 0.95}); !errors.Is(err, propose.ErrBudget) { // it can never fit
		t.Errorf("found %v", err)
	}
	held, _ := b.Reserve(Amount{USD: 0.8})
	defer held.Settle(Amount{})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("Ctrl-C")
	cancel(why)
	if _, err := b.Wait(ctx, Amount{USD: 0.5}); !errors.Is(err, why) {
		t.Errorf("found %v", err)
	}
}

func TestPrices(t *testing.T) {
	table, err := Prices("")
	if err != nil || len(table.Models) < 10 {
		t.Fatalf("%d models, %v", len(table.Models), err)
	}
	if manual, err := os.ReadFile("../../../docs/authors.md"); err != nil || table.Source == "" || !strings.Contains(string(manual), "APIs on "+table.Date) {
		t.Errorf("the table of `%s`, from `%s`, is not the one that docs/authors.md names (%v)", table.Date, table.Source, err)
	}
	price, ok := table.Of("gpt-5-mini-2025-08-07")
	if !ok || price.In != 0.25 || price.Out != 2 || price.Of(1e6, 0, 1e6) != 2.25 || price.Of(1e6, 1e6, 0) != 0.025 || price.Worst(1e6, 1e6) != 2.25 {
		t.Errorf("found %+v", price)
	}
	if _, ok := table.Of("gpt-5-mini-turbo"); ok {
		t.Error("a name that only begins like one has a price")
	}
	own := filepath.Join(t.TempDir(), "prices.json")
	write := func(text string) {
		if err := os.WriteFile(own, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"schema": 1, "date": "2031-01-01", "mean_reply_tokens": 700, "models": {"gpt-5-mini": {"usd_per_mtok_in": 9, "usd_per_mtok_out": 10}, "mine": {"usd_per_mtok_in": 1, "usd_per_mtok_out": 2}}}`)
	table, err = Prices(own)
	if err != nil {
		t.Fatal(err)
	}
	for model, in := range map[string]float64{"gpt-5-mini": 9, "mine": 1, "gpt-5": 1.25} {
		if price, ok := table.Of(model); !ok || price.In != in || price.ReplyTokens == 0 {
			t.Errorf("%s: %+v", model, price)
		}
	}
	for text, part := range map[string]string{
		`{"schema": 2, "date": "", "mean_reply_tokens": 1, "models": {}}`:                                                           "`schema` is 2",
		`{"schema": 1, "date": "", "mean_reply_tokens": 1, "models": {"m": {"usd_per_mtok_in": -1, "usd_per_mtok_out": 1}}}`:        "below 0",
		`{"schema": 1, "date": "", "mean_reply_tokens": 1, "models": {"m": {"usd_per_mtok_in": 1}}}`:                                "usd_per_mtok_out",
		`{"schema": 1, "date": "", "mean_reply_tokens": 0, "models": {}}`:                                                           "`mean_reply_tokens` is 0",
		`{"schema": 1, "date": "", "mean_reply_tokens": 1, "models": {"m": {"usd_per_mtok_in": 1, "usd_per_mtok_out": 1, "x": 1}}}`: "unknown field",
	} {
		write(text)
		if _, err := Prices(own); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Prices(own + "x"); err == nil || card.AsError(err).Code != card.CodeRequest {
		t.Errorf("found %v", err)
	}
}

// The example of the manual is a price file.
func TestTheManualsPriceFileIsOne(t *testing.T) {
	text, err := os.ReadFile("../../../docs/authors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "```json\n")
	example, _, _ = strings.Cut(example, "```")
	path := filepath.Join(t.TempDir(), "prices.json")
	if err := os.WriteFile(path, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	table, err := Prices(path)
	if price, ok := table.Of("my-model"); err != nil || !ok || price.Out != 2 {
		t.Errorf("found %+v, %v", price, err)
	}
}

func TestAnUnknownModelNeedsAPriceOrACap(t *testing.T) {
	table, err := Prices("")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		limits Limits
		free   bool
		priced bool
		part   string
	}{
		"no limit":                {part: "nothing limits what it may cost"},
		"tokens out":              {limits: Limits{TokensOut: ptr(int64(1000))}},
		"USD":                     {limits: Limits{USD: ptr(1.0)}, part: "hold a budget of 1 USD"},
		"USD and tokens out":      {limits: Limits{USD: ptr(1.0), TokensOut: ptr(int64(1000))}, part: "hold a budget of 1 USD"},
		"nothing may be spent":    {limits: Limits{USD: ptr(0.0)}},
		"a server on the machine": {free: true, priced: true},
	} {
		price, err := table.For("nobody-knows", c.limits, c.free)
		if (price != nil) != c.priced || (err != nil) != (c.part != "") || err != nil && !(strings.Contains(err.Error(), c.part) && card.AsError(err).Hint != "") {
			t.Errorf("%s: %+v, %v", name, price, err)
		}
	}
}

func TestAForecastEndsAtTheNearestLimit(t *testing.T) {
	plan := Plan{Calls: 100, TokensIn: 2000, TokensOut: 1000, Seconds: 10, InFlight: 4, Price: &Price{In: 1, Out: 8}, Basis: "the table"}
	for name, c := range map[string]struct {
		limits Limits
		calls  int64
		usd    float64
		ends   string
	}{
		"no limit":   {Limits{}, 100, 1, ""},
		"usd":        {Limits{USD: ptr(0.5)}, 50, 0.5, "usd"},
		"no usd":     {Limits{USD: ptr(0.0)}, 0, 0, "usd"},
		"tokens out": {Limits{USD: ptr(0.5), TokensOut: ptr(int64(10_500))}, 10, 0.1, "tokens_out"},
		"time":       {Limits{WallS: ptr(100.0)}, 40, 0.4, "wall_s"},
	} {
		b, err := New(c.limits, Amount{}, 0, func() time.Time { return time.Unix(0, 0) })
		if err != nil {
			t.Fatal(err)
		}
		f := b.Forecast(plan)
		if f.Calls != c.calls || f.USD < c.usd-1e-9 || f.USD > c.usd+1e-9 || f.Ends != c.ends || f.TokensIn != 2000*c.calls || !f.Priced {
			t.Errorf("%s: %+v", name, f)
		}
		if !strings.Contains(f.String(), "the table") {
			t.Error(f.String())
		}
	}
	plan.Price = nil
	if f := made(t, Limits{}, Amount{}).Forecast(plan); f.Priced || f.USD != 0 || !strings.Contains(f.String(), "price unknown") {
		t.Errorf("found %+v", f)
	}
}
