package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/forge"
	"github.com/kernelforge/kernelforge/go/store"
)

func reluCard() *card.Card {
	c := &card.Card{Schema: 1, Target: "host", Overload: "aten::relu", Layout: "contiguous", Threads: 2, Share: 0.5}
	for i, n := range []int64{1 << 16, 1<<15 + 24} {
		call := card.Call{Overload: "aten::relu", Args: []card.Arg{{Name: "self", Kind: "tensor", DType: "float32", Sizes: []int64{n}, Strides: []int64{1}}},
			Outputs: []card.Output{{DType: "float32", Sizes: []int64{n}, Strides: []int64{1}, Alias: -1}}}
		c.ID = card.ID(call, c.Layout)
		c.Variants = append(c.Variants, card.Variant{ID: []string{"v0", "v1"}[i], Calls: 2, EagerUS: eagerNS / 1000, RoofUS: 0, Bytes: 8 * n, Call: call})
	}
	return c
}

type request map[string]any

// startRelu is the request for a study of relu with the real worker.
func startRelu(t *testing.T, path string, candidates int) request {
	return request{"store": path, "study": "relu", "target": "host", "model": "net", "cards": []any{reluCard()},
		"pins": request{"torch": "2.15.0", "device": "this cpu", "threads": 2, "runtime": "1", "toolchain": "g++"},
		"settings": request{"seed": 1, "candidates": candidates, "min_gain": 0, "worker": workerProgram(t), "runtime": runtimeLibrary(t), "jobs": 2,
			"cache": filepath.Join(filepath.Dir(path), "cache"), "scratch": filepath.Join(filepath.Dir(path), "scratch")}}
}

// drive polls and answers until the study has ended, as Python does; after `cancel` verdicts it asks to finish.
func drive(t *testing.T, referee *scriptedReferee, cancel int) forge.Poll {
	t.Helper()
	verdicts := 0
	deadline := time.Now().Add(4 * time.Minute)
	for time.Now().Before(deadline) {
		poll := result[forge.Poll](t, "study.poll", request{"study": "relu", "timeout_ms": 5000}) // longer than a call may take
		for _, event := range poll.Events {
			if event.Kind == store.KindVerdict {
				verdicts++
			}
		}
		if cancel > 0 && verdicts >= cancel {
			result[struct{}](t, "study.cancel", request{"study": "relu", "now": false})
			cancel = 0
		}
		for _, body := range poll.Tasks {
			var task taskHead
			if err := json.Unmarshal(body, &task); err != nil {
				t.Fatal(err)
			}
			answer := request{"study": "relu", "task": task.Task}
			if done, err := referee.execute(task); err != nil {
				answer["error"] = request{"code": "referee", "text": err.Error()}
			} else {
				answer["result"] = done
			}
			result[struct{}](t, "study.answer", answer)
		}
		if poll.State == forge.StateDone || poll.State == forge.StateFailed {
			return poll
		}
	}
	t.Fatal("the study did not end")
	return forge.Poll{}
}

// The whole loop with the real templates, judge, compiler, worker and runtime: from a card to a pack, interrupted once on the way.
func TestCardBecomesAPack(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs candidates")
	}
	path := filepath.Join(t.TempDir(), "store.db")
	referee := newReferee(t, reluCard())
	first := result[struct {
		Study   string
		Resumed bool
		Runs    []string
	}](t, "study.start", startRelu(t, path, 8))
	if first.Study != "relu" || first.Resumed || len(first.Runs) != 1 {
		t.Errorf("started %+v", first)
	}
	if poll := drive(t, referee, 3); poll.State != forge.StateDone || poll.Error != nil {
		t.Fatalf("it ended with %s, %+v", poll.State, poll.Error)
	}
	result[struct{}](t, "study.close", request{"study": "relu"})
	about := request{"store": path, "study": "relu"}
	half := result[forge.StudyView](t, "store.study", about)
	if half.State != "stopped" || len(half.Runs[0].Nodes) < 4 || len(half.Runs[0].Nodes) > 5 {
		t.Fatalf("after Ctrl-C: %s, %d nodes (expected stopped, eager and 3 or 4)", half.State, len(half.Runs[0].Nodes))
	}
	if again := result[struct{ Resumed bool }](t, "study.start", startRelu(t, path, 8)); !again.Resumed {
		t.Error("the study was not resumed")
	}
	if poll := drive(t, referee, 0); poll.State != forge.StateDone || poll.Error != nil {
		t.Fatalf("it ended with %s, %+v", poll.State, poll.Error)
	}
	result[struct{}](t, "study.close", request{"study": "relu"})

	view := result[forge.StudyView](t, "store.study", about)
	run := view.Runs[0]
	for _, node := range run.Nodes {
		detail := result[forge.NodeView](t, "store.node", request{"store": path, "study": "relu", "run": run.Card, "node": node.Node}).Verdict.Detail
		t.Logf("node %d below %d: %s, cost %.3f, %s %v %s", node.Node, node.Parent, node.Status, node.Cost, node.Family, node.Params, detail)
	}
	if view.State != "done" || len(run.Nodes) != 9 || run.Best >= 0.9 || len(run.Winners) == 0 {
		t.Fatalf("%s, %d nodes, best %.3f, %d winners (expected done, 9, below 0.9, some)", view.State, len(run.Nodes), run.Best, len(run.Winners))
	}
	best := run.Winners[0]
	if !best.Exact || best.Evidence.Low <= 1 || best.Evidence.Rule != 1 {
		t.Errorf("the winner's evidence is %+v, exact %v (expected a bitwise plan that is surely faster)", best.Evidence, best.Exact)
	}
	node := result[forge.NodeView](t, "store.node", request{"store": path, "study": "relu", "run": run.Card, "node": best.Node})
	if !strings.Contains(node.Candidate.Source, "kf_main") || len(node.Lineage) < 2 {
		t.Errorf("node %d: lineage %v, source of %d bytes", best.Node, node.Lineage, len(node.Candidate.Source))
	}
	folder := filepath.Join(t.TempDir(), "relu.kfpack")
	written := result[struct{ Plans []string }](t, "pack.write", request{"store": path, "study": "relu", "path": folder})
	if len(written.Plans) != len(run.Winners) {
		t.Errorf("the pack has %v", written.Plans)
	}
	runPack(t, referee, folder)
	result[struct{}](t, "store.result", request{"store": path, "study": "relu", "result": request{"ratio": 1.3}})
	if list := result[[]forge.StudyLine](t, "store.studies", request{"store": path}); len(list) != 1 || list[0].State != "done" || list[0].Device != "this cpu" {
		t.Errorf("studies are %+v", list)
	}
	if view := result[forge.StudyView](t, "store.study", about); string(view.Result) != `{"ratio":1.3}` {
		t.Errorf("the result is %s", view.Result)
	}
	if gone := result[struct{ Removed []string }](t, "store.clear", request{"store": path}); len(gone.Removed) != 1 {
		t.Errorf("removed %v", gone.Removed)
	}
	for _, kind := range []string{"prepare", "check", "time_eager", "confirm", "confirm_model", "release"} {
		if referee.kinds[kind] == 0 {
			t.Errorf("no task `%s` came", kind)
		}
	}
}

// runPack loads every plan of the pack as written on disk, and runs it on data that no one has seen.
func runPack(t *testing.T, referee *scriptedReferee, folder string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "pack.json"))
	if err != nil {
		t.Fatal(err)
	}
	var pack struct{ Plans []json.RawMessage }
	if err := json.Unmarshal(text, &pack); err != nil {
		t.Fatal(err)
	}
	if _, err := referee.prepare(4711); err != nil {
		t.Fatal(err)
	}
	for _, body := range pack.Plans {
		var plan forge.Winner
		if err := json.Unmarshal(body, &plan); err != nil {
			t.Fatal(err)
		}
		image, err := os.ReadFile(filepath.Join(folder, "code", plan.Code.SHA256+".so"))
		if err != nil {
			t.Fatal(err)
		}
		loaded, _, err := referee.library.NewPlan(body, image, -1)
		if err != nil {
			t.Fatal(err)
		}
		tensor := referee.of(plan.Variant)
		if err := referee.library.Launch(loaded, []uintptr{tensor.inputAddress, uintptr(unsafe.Pointer(&tensor.output[0]))}, referee.parallel); err != nil {
			t.Fatal(err)
		}
		referee.library.FreePlan(loaded)
		want := make([]float32, len(tensor.input))
		relu(want, tensor.input)
		for i := range want {
			if want[i] != tensor.output[i] {
				t.Fatalf("plan %s: element %d is %g (expected %g)", plan.ID, i, tensor.output[i], want[i])
			}
		}
	}
	if _, err := referee.execute(taskHead{Kind: "release"}); err != nil {
		t.Fatal(err)
	}
}

func TestRequestsThatCannotBe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	valid := func() request {
		return request{"store": path, "study": "relu", "target": "host", "model": "net", "cards": []any{reluCard()},
			"pins": request{"threads": 2}, "settings": request{"worker": "none", "runtime": "none"}}
	}
	for name, test := range map[string]struct {
		change     func(request)
		code, text string
	}{
		"no cards":            {func(r request) { r["cards"] = []any{} }, "bad_request", "`cards` is empty"},
		"a damaged card":      {func(r request) { r["cards"] = []any{request{"id": "c-1"}} }, "bad_request", "missing"},
		"another target":      {func(r request) { r["target"] = "cuda" }, "bad_request", "expected `cuda`"},
		"other threads":       {func(r request) { r["pins"] = request{"threads": 8} }, "bad_request", "with 2 threads (expected `host` with 8"},
		"unknown setting":     {func(r request) { r["settings"] = request{"worker": "", "runtime": "", "speed": 11} }, "bad_request", "`settings.speed`: unknown field"},
		"negative budget":     {func(r request) { r["settings"] = request{"worker": "", "runtime": "", "candidates": -1} }, "bad_request", "candidates"},
		"a name with /":       {func(r request) { r["study"] = "a/b" }, "bad_request", "cannot be a name"},
		"a place below /proc": {func(r request) { r["store"] = "/proc/nothing/store.db" }, "store", "open store"},
	} {
		request := valid()
		test.change(request)
		if got := failed(t, "study.start", request); got.Code != test.code || !strings.Contains(got.Text, test.text) {
			t.Errorf("%s: found %+v (expected %s, %q)", name, got, test.code, test.text)
		}
	}
	for op, test := range map[string]struct {
		request request
		code    string
	}{
		"study.poll":   {request{"study": "none", "timeout_ms": 0}, "not_found"},
		"study.answer": {request{"study": "none", "task": 1, "result": request{}}, "not_found"},
		"study.cancel": {request{"study": "none", "now": true}, "not_found"},
		"study.close":  {request{"study": "none"}, "not_found"},
		"store.study":  {request{"store": path, "study": "none"}, "not_found"},
		"store.node":   {request{"store": path, "study": "none", "run": "c-1", "node": 0}, "not_found"},
		"store.clear":  {request{"store": path, "study": "none"}, "not_found"},
		"pack.write":   {request{"store": path, "study": "none", "path": path + ".kfpack"}, "not_found"},
		"store.result": {request{"store": path, "study": "none", "result": request{}}, "not_found"},
	} {
		if got := failed(t, op, test.request); got.Code != test.code {
			t.Errorf("%s: found %+v (expected %s)", op, got, test.code)
		}
	}
}

// A broken harness fails the study with a hint, and the study can be started again at once.
func TestStudyWithoutAWorkerFailsWithAHint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	start := request{"store": path, "study": "", "target": "host", "model": "net", "cards": []any{reluCard()}, "pins": request{"threads": 2},
		"settings": request{"worker": "/nonexistent/kernelforge-worker", "runtime": "/nonexistent/libkfruntime.so", "scratch": t.TempDir()}}
	var name string
	for range 2 {
		started := result[struct{ Study string }](t, "study.start", start)
		if name != "" && started.Study != name {
			t.Errorf("the same work is called `%s`, then `%s`", name, started.Study)
		}
		name = started.Study
		var poll forge.Poll
		for poll.State != forge.StateFailed && poll.State != forge.StateDone {
			poll = result[forge.Poll](t, "study.poll", request{"study": name, "timeout_ms": 100})
		}
		if poll.State != forge.StateFailed || poll.Error == nil || poll.Error.Hint == "" {
			t.Errorf("it ended with %s, %+v", poll.State, poll.Error)
		}
		result[struct{}](t, "study.close", request{"study": name})
	}
}

func TestTemplatesAreRendered(t *testing.T) {
	type rendered struct {
		Families   []renderedFamily
		Candidates []card.Candidate
	}
	all := result[rendered](t, "template.render", request{"card": reluCard()})
	if len(all.Families) == 0 || len(all.Candidates) != len(all.Families) {
		t.Fatalf("%d families and %d candidates (expected some, and as many)", len(all.Families), len(all.Candidates))
	}
	family := all.Families[0]
	one := result[rendered](t, "template.render", request{"card": reluCard(), "family": family.Name, "params": request{family.Params[0].Name: family.Params[0].Values[0]},
		"facts": request{"target": "host", "isa": "avx2", "threads": 2, "l1_bytes": 32768, "l2_bytes": 524288, "llc_bytes": 1 << 25, "cache_line": 64}})
	if len(one.Candidates) != 1 || one.Candidates[0].Family != family.Name || one.Candidates[0].Params[family.Params[0].Name] != family.Params[0].Values[0] {
		t.Errorf("found %+v", one)
	}
	if got := failed(t, "template.render", request{"card": reluCard(), "family": "none"}); got.Code != "not_found" {
		t.Errorf("found %+v", got)
	}
}

// On CUDA the caller must say what the device is: the core opens none for a look.
func TestTemplatesOfADeviceAreRenderedForItsFacts(t *testing.T) {
	type rendered struct {
		Families   []renderedFamily
		Candidates []card.Candidate
	}
	c := reluCard()
	c.Target, c.Threads = "cuda", 0
	facts := request{"target": "cuda", "arch": "sm_90a", "sm_count": 132, "l2_bytes": 62914560, "smem_optin": 232448}
	found := result[rendered](t, "template.render", request{"card": c, "facts": facts})
	if len(found.Candidates) == 0 || len(found.Candidates[0].Spec.Kernels) == 0 || len(found.Candidates[0].Spec.Kernels[0].Grid) != 3 {
		t.Errorf("found %+v (expected kernels with a grid)", found)
	}
	for name, asked := range map[string]request{
		"none":                    {"card": c},
		"the host's":              {"card": c, "facts": request{"target": "host", "isa": "avx2", "threads": 2, "l1_bytes": 1, "l2_bytes": 1, "llc_bytes": 1, "cache_line": 64}},
		"half of them":            {"card": c, "facts": request{"target": "cuda", "arch": "sm_90a"}},
		"a device's for the host": {"card": reluCard(), "facts": facts},
		"another target":          {"card": c, "facts": request{"target": "tpu", "arch": "sm_90a", "sm_count": 1, "l2_bytes": 1, "smem_optin": 1}},
	} {
		if got := failed(t, "template.render", asked); got.Code != "bad_request" {
			t.Errorf("%s: found %+v", name, got)
		}
	}
}
