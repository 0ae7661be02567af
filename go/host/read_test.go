package host

import (
	"bytes"
	"encoding/binary"
	"testing"
)

func framed(body string, image string) []byte {
	return append(append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...), image...)
}

func TestAResultThatDoesNotAddUpIsAnError(t *testing.T) {
	p := &Pool{}
	if built, err := p.built(framed(`{"ending": "", "log": "", "bytes": 3}`, "abc"), "exit status 0"); err != nil || string(built.Image) != "abc" {
		t.Fatalf("found %+v, %v", built, err)
	}
	for name, out := range map[string][]byte{
		"nothing":        nil,
		"half a frame":   framed(`{"ending": "", "log": "", "bytes": 3}`, "")[:20],
		"too short":      framed(`{"ending": "", "log": "", "bytes": 3}`, "ab"),
		"too long":       framed(`{"ending": "", "log": "", "bytes": 3}`, "abcd"),
		"an empty image": framed(`{"ending": "", "log": "", "bytes": 0}`, ""),
		"unknown field":  framed(`{"ending": "", "log": "", "bytes": 3, "key": 1}`, "abc"),
		"no JSON":        framed(`abc`, "abc"),
	} {
		if built, err := p.built(out, "exit status 0"); err == nil || built.Image != nil {
			t.Errorf("%s: found %+v", name, built)
		}
	}
}

func FuzzResult(f *testing.F) {
	f.Add(framed(`{"ending": "", "log": "", "bytes": 3}`, "abc"))
	f.Add(framed(`{"ending": "exit status 1", "log": "candidate.cc:1:1: error: x\n /home/x", "bytes": 0}`, ""))
	f.Fuzz(func(t *testing.T, out []byte) {
		built, err := (&Pool{}).built(out, "exit status 0")
		if err == nil && (len(built.Image) == 0) == (built.Failure == "") {
			t.Fatalf("found %+v", built)
		}
		if len(built.Failure) > maxFailure+3 || built.Image != nil && !bytes.HasSuffix(out, built.Image) {
			t.Fatalf("%d bytes of failure", len(built.Failure))
		}
	})
}
