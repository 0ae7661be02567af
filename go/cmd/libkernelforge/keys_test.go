package main

import (
	"crypto/ed25519"
	"encoding/hex"
	"strings"
	"testing"
)

func TestKeysSignWhatTheirPublicHalfVerifies(t *testing.T) {
	type pair struct{ Private, Public, Key string }
	type signature struct{ Key, Signature string }
	a, b := result[pair](t, "key.make", request{}), result[pair](t, "key.make", request{})
	if a.Key == b.Key || !strings.HasPrefix(a.Private, "-----BEGIN PRIVATE KEY-----\n") || !strings.HasPrefix(a.Public, "-----BEGIN PUBLIC KEY-----\n") {
		t.Fatalf("keys are %q and %q", a.Public, b.Public)
	}
	made := result[signature](t, "key.sign", request{"key": a.Private, "message": hex.EncodeToString([]byte("a pack"))})
	key, _ := hex.DecodeString(made.Key)
	sig, _ := hex.DecodeString(made.Signature)
	if made.Key != a.Key || !ed25519.Verify(key, []byte("a pack"), sig) || ed25519.Verify(key, []byte("a pick"), sig) {
		t.Errorf("key %s, signature %s", made.Key, made.Signature)
	}
	for _, wrong := range []request{{"key": a.Public, "message": ""}, {"key": "", "message": ""}, {"key": a.Private, "message": "xy"},
		{"key": "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n", "message": ""}} {
		if rc, answer := call("key.sign", encode(t, wrong)); rc != rcFailed || strings.Contains(string(answer), "c2VjcmV0") {
			t.Errorf("%v gives %d %s", wrong, rc, answer)
		}
	}
}
