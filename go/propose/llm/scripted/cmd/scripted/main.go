// Command scripted serves a script (JSON: a list of steps, see package scripted) on a port of this machine, for tests of the whole loop:
//
//	scripted -script FILE [-log FILE]     prints `http://127.0.0.1:PORT/v1` and serves until its input ends
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose/llm/scripted"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "scripted:", err)
		os.Exit(1)
	}
}

func run() error {
	script := flag.String("script", "", "file with the steps")
	log := flag.String("log", "", "file to which a line of JSON is appended for each request")
	flag.Parse()
	text, err := os.ReadFile(*script)
	if err != nil {
		return err
	}
	var steps []scripted.Step
	if err := card.Decode(text, &steps); err != nil {
		return fmt.Errorf("read `%s`: %w", *script, err)
	}
	server := scripted.New(steps...)
	if *log != "" {
		file, err := os.OpenFile(*log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		var mu sync.Mutex
		server.Log = func(r scripted.Record) {
			mu.Lock()
			defer mu.Unlock()
			_ = json.NewEncoder(file).Encode(r)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/v1\n", listener.Addr())
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); os.Exit(0) }()
	return http.Serve(listener, server)
}
