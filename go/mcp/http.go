package mcp

// http.go owns who may call over HTTP: programs of this machine that know the token. A page in a browser of this machine is none of them, whatever
// name it has made to point here: Host and Origin are looked at before anything else.

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kernelforge/kernelforge/go/card"
)

const (
	maxBody     = 2 << 20 // bytes of a request: the largest source, escaped
	maxHeader   = 16 << 10
	leastToken  = 16
	idleSession = time.Hour
	path        = "/mcp"
)

// HTTP serves any number of clients at an address of this machine, `127.0.0.1:8931` or with port 0 a free one, and gives the address for clients.
// They send the token: `Authorization: Bearer TOKEN`.
func (s *Server) HTTP(address, token string) (url string, err error) {
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return "", card.Fail(card.CodeRequest, "use 127.0.0.1:PORT; a tunnel brings it to other machines",
			"serve at `%s`: it is no address of this machine alone (expected 127.0.0.1:PORT or [::1]:PORT)", address)
	}
	if len(token) < leastToken {
		return "", card.Fail(card.CodeRequest, "", "serve at `%s`: the token has %d characters (expected at least %d)", address, len(token), leastToken)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return "", card.Fail(card.CodeRequest, "name another port, or 0 for a free one", "serve at `%s`: %w", address, err)
	}
	protocol := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.server },
		&sdk.StreamableHTTPOptions{MaxRequestBodyBytes: maxBody, SessionTimeout: idleSession})
	server := &http.Server{Handler: guarded(protocol, listener.Addr().(*net.TCPAddr), token), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return s.ctx }}
	s.mutex.Lock()
	s.closing = func() { _ = server.Close() } // every connection was open to this server alone
	s.mutex.Unlock()
	go s.guard(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	return "http://" + listener.Addr().String() + path, nil
}

// guarded lets through what comes from this machine's programs with the token.
func guarded(next http.Handler, at *net.TCPAddr, token string) http.Handler {
	_, port, _ := net.SplitHostPort(at.String())
	hosts := []string{at.String(), net.JoinHostPort("localhost", port)}
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		sum := sha256.Sum256([]byte(given))
		origin, scheme := strings.CutPrefix(r.Header.Get("Origin"), "http://")
		switch {
		case !slices.Contains(hosts, r.Host):
			http.Error(w, "this server is reached by its address alone: the header Host names another", http.StatusForbidden)
		case len(r.Header.Values("Origin")) > 0 && !(scheme && slices.Contains(hosts, origin)):
			http.Error(w, "pages of other origins may not call this server", http.StatusForbidden)
		case !bearer || subtle.ConstantTimeCompare(sum[:], want[:]) != 1:
			w.Header().Set("WWW-Authenticate", `Bearer realm="kernelforge"`)
			http.Error(w, "the token is missing or another: send `Authorization: Bearer TOKEN`", http.StatusUnauthorized)
		case r.URL.Path != path:
			http.NotFound(w, r)
		case r.ContentLength > maxBody:
			http.Error(w, "the request is too large", http.StatusRequestEntityTooLarge)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
