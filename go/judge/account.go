package judge

// account.go owns the judge's account of its own time, part by part, for whoever makes it faster. It refuses to decide anything.

import (
	"context"
	"sync"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/worker"
)

// The parts. What is asked of the referee is what was waited for: its work, and the way there and back.
const (
	partCompile   = "compile"   // waiting for an image
	partWorker    = "worker"    // waiting for a worker
	partMap       = "map"       // giving it the card's buffers
	partLoad      = "load"      // loading and unloading
	partRun       = "run"       // a candidate's runs for comparison
	partCheck     = "check"     // comparisons and poison
	partQuiet     = "quiet"     // waiting for starts and ends of processes, which nothing may be timed beside
	partTurns     = "turns"     // waiting for other processes' judges on the device
	partTime      = "time"      // timing a candidate
	partEager     = "eager"     // timing eager
	partTelemetry = "telemetry" // reading the device's sensors
	partSanitizer = "sanitizer"
	partCount     = "count" // a run under ncu
	partServe     = "serve" // finalists in the user's process
)

// account is seconds by part. Safe for concurrent use.
type account struct {
	mutex   sync.Mutex
	seconds map[string]float64
}

// since adds the time from `began` to now: defer a.since(part, time.Now()).
func (a *account) since(part string, began time.Time) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.seconds == nil {
		a.seconds = map[string]float64{}
	}
	a.seconds[part] += time.Since(began).Seconds()
}

// Took gives the seconds that went by since it was last asked, by part; a study asks after each candidate and each finalist.
func (j *Judge) Took() map[string]float64 {
	j.account.mutex.Lock()
	defer j.account.mutex.Unlock()
	seconds := j.account.seconds
	j.account.seconds = nil
	return seconds
}

// clockedWorker accounts for what is asked of a worker about a candidate.
type clockedWorker struct {
	runner
	account *account
	turns   *turns
}

func (c clockedWorker) Load(ctx context.Context, limit time.Duration, plan any, image []byte) (int, error) {
	defer c.account.since(partLoad, time.Now())
	return c.runner.Load(ctx, limit, plan, image)
}

func (c clockedWorker) Unload(ctx context.Context, limit time.Duration, kernel int) error {
	defer c.account.since(partLoad, time.Now())
	return c.runner.Unload(ctx, limit, kernel)
}

func (c clockedWorker) Run(ctx context.Context, limit time.Duration, kernel int, slots []worker.Slot, dirt worker.Dirt, before int) (float64, error) {
	defer c.account.since(partRun, time.Now())
	defer c.turns.beside(ctx)()
	return c.runner.Run(ctx, limit, kernel, slots, dirt, before)
}

func (c clockedWorker) Time(ctx context.Context, limit time.Duration, kernel int, sets [][]*worker.Slot, samples, inner int, warm bool) ([]float64, float64, error) {
	defer c.account.since(partTime, time.Now())
	return c.runner.Time(ctx, limit, kernel, sets, samples, inner, warm)
}

func (c clockedWorker) Telemetry(ctx context.Context, limit time.Duration) (*worker.Telemetry, string, error) {
	defer c.account.since(partTelemetry, time.Now())
	return c.runner.Telemetry(ctx, limit)
}

// clockedReferee accounts for what is asked of the referee.
type clockedReferee struct {
	Referee
	account *account
	turns   *turns
}

func (c clockedReferee) Prepare(ctx context.Context, of *card.Card, seed int64) (*Prepared, error) {
	defer c.turns.beside(ctx)()
	return c.Referee.Prepare(ctx, of, seed)
}

func (c clockedReferee) Check(ctx context.Context, cardID string, compare *Compare, poison *Poison) (*Checked, error) {
	defer c.account.since(partCheck, time.Now())
	defer c.turns.beside(ctx)()
	return c.Referee.Check(ctx, cardID, compare, poison)
}

func (c clockedReferee) TimeEager(ctx context.Context, cardID, variant string, samples, inner int) (*Timed, error) {
	defer c.account.since(partEager, time.Now())
	return c.Referee.TimeEager(ctx, cardID, variant, samples, inner)
}

func (c clockedReferee) Confirm(ctx context.Context, cardID, variant string, plan Plan, image string, blocks int, seed int64) (*Confirmed, error) {
	defer c.account.since(partServe, time.Now())
	return c.Referee.Confirm(ctx, cardID, variant, plan, image, blocks, seed)
}

// hush takes what is held while something is timed: starts and ends of our processes are over then, and no other judge uses the device.
func (j *Judge) hush(ctx context.Context) (unlock func()) {
	began := time.Now()
	j.quiet.Lock()
	j.account.since(partQuiet, began)
	defer j.account.since(partTurns, time.Now())
	leave := j.turns.alone(ctx)
	return func() {
		leave()
		j.quiet.Unlock()
	}
}
