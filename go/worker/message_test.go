package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The examples of docs/formats.md are frames of this package.
func TestTheExamplesOfTheDocumentAreRead(t *testing.T) {
	text, err := os.ReadFile("../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## worker frames\n")
	section, _, _ = strings.Cut(section, "\n## ")
	requests, answers := 0, 0
	for _, block := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(section, -1) {
		for line := range strings.Lines(block[1]) {
			if strings.Contains(line, `"op"`) {
				request, err := DecodeRequest([]byte(line))
				if err != nil {
					t.Errorf("%s: %v", line, err)
					continue
				}
				requests++
				same(t, request, line)
				continue
			}
			var answer RunAnswer
			var first Answer
			if err := json.Unmarshal([]byte(line), &first); err != nil {
				t.Errorf("%s: %v", line, err)
			} else if first.OK {
				err = json.Unmarshal([]byte(line), &answer)
				same(t, answer, line)
			} else {
				same(t, first, line)
			}
			answers++
		}
	}
	if requests == 0 || answers < 2 {
		t.Fatalf("%d requests and %d answers found in the document", requests, answers)
	}
	for _, op := range []string{"hello", "map", "unmap", "load", "run", "time", "unload", "telemetry"} {
		if !strings.Contains(section, "| `"+op+"` |") {
			t.Errorf("the document does not describe `%s`", op)
		}
	}
	for _, code := range []string{FaultSpec, FaultCode, FaultLaunch, FaultDevice, FaultRequest, FaultSystem} {
		if !strings.Contains(section, "`"+code+"`") {
			t.Errorf("the document does not name the error code `%s`", code)
		}
	}
}

// same compares what a value writes with the line that it was read from.
func same(t *testing.T, value any, line string) {
	t.Helper()
	written, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := json.Compact(&want, []byte(line)); err != nil {
		t.Fatal(err)
	}
	if string(written) != want.String() {
		t.Errorf("read %s, written %s", want.String(), written)
	}
}

func TestARequestThatBreaksItsFormIsRefused(t *testing.T) {
	for _, c := range []struct{ body, names string }{
		{`{"id": 1, "op": "run", "kernel": 1}`, "slots"},
		{`{"id": 1, "op": "run", "kernel": 1, "slots": [], "extra": 1}`, "extra"},
		{`{"id": 1, "op": "run", "kernel": "1", "slots": []}`, "kernel"},
		{`{"id": 1, "op": "format_disk"}`, "format_disk"},
		{`{"id": 1, "op": "hello", "runtime": "r", "threads": 0, "device": -1}`, "threads"},
		{`{"id": 1, "op": "hello", "runtime": "r", "threads": 100000, "device": -1}`, "threads"},
		{`{"id": 1, "op": "hello", "runtime": "r", "threads": 1, "device": -2}`, "device"},
		{`{"id": 1, "op": "hello", "runtime": "r", "threads": 1}`, "device"},
		{`{"id": 1, "op": "map", "buffers": [{"id": 1, "bytes": 8, "writable": true}], "fds": 2}`, "fds"},
		{`{"id": 1, "op": "map", "buffers": [{"id": 1, "bytes": 0, "writable": true}], "fds": 1}`, "buffer 1"},
		{`{"id": 1, "op": "map", "buffers": [{"id": 1, "bytes": 18446744073709551615, "writable": true}], "fds": 1}`, "buffer 1"},
		{`{"id": 1, "op": "load", "plan": {}, "fds": 0}`, "fds"},
		{`{"id": 1, "op": "time", "kernel": 1, "sets": [], "samples": 1, "inner": 1, "warm": false}`, "0 sets"},
		{`{"id": 1, "op": "time", "kernel": 1, "sets": [[null]], "samples": 1000000000, "inner": 1, "warm": false}`, "samples"},
		{`{"id": 1, "op": "time", "kernel": 1, "sets": [[null], []], "samples": 1, "inner": 1, "warm": false}`, "sets"},
		{`not JSON`, "request"},
	} {
		if _, err := DecodeRequest([]byte(c.body)); err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s: found %v (expected an error that names `%s`)", c.body, err, c.names)
		}
	}
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte("\x02\x00\x00\x00{}"))
	f.Add([]byte("\xff\xff\xff\xff{}"))
	f.Add([]byte("\x10\x00\x00\x00short"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		from := bytes.NewReader(stream)
		for {
			body, err := ReadFrame(from)
			if err != nil {
				if errors.Is(err, io.EOF) && from.Len() != 0 {
					t.Fatalf("EOF with %d bytes left", from.Len())
				}
				return
			}
			if len(body) == 0 || len(body) > len(stream)-4 {
				t.Fatalf("a body of %d bytes out of %d", len(body), len(stream))
			}
		}
	})
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"id": 7, "op": "run", "kernel": 1, "slots": [{"buffer": 1, "offset": 4096}]}`))
	f.Add([]byte(`{"id": 7, "op": "time", "kernel": 1, "sets": [[{"buffer": 1, "offset": 0}, null]], "samples": 3, "inner": 2, "warm": true}`))
	f.Add([]byte(`{"id": 1, "op": "map", "buffers": [{"id": 1, "bytes": 8, "writable": true}], "fds": 1}`))
	f.Add([]byte(`{"id": 1, "op": "load", "plan": {"a": [1]}, "fds": 1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		request, err := DecodeRequest(body)
		if err != nil {
			return
		}
		written, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeRequest(written); err != nil {
			t.Fatalf("%s was read, but %s is not: %v", body, written, err)
		}
	})
}
