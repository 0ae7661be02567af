package main

// mcp.go owns the servers of this process that agents reach a study through, by number.

import (
	"os"
	"sync"
	"time"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/forge"
	"github.com/kernelforge/kernelforge/go/mcp"
	"github.com/kernelforge/kernelforge/go/store"
)

var servers struct {
	sync.Mutex
	last  int
	known map[int]*mcp.Server
}

type serveRequest struct {
	Store string `json:"store"`
	Study string `json:"study"`
	// Details are of failures: elements, values, seeds.
	Details bool `json:"details,omitempty"`
	// Stdio are descriptors that belong to the server from here on.
	Stdio *struct {
		In  int `json:"in"`
		Out int `json:"out"`
	} `json:"stdio"`
	HTTP *struct {
		Address string `json:"address"`
		Token   string `json:"token"`
	} `json:"http"`
}

func startServer(request serveRequest) (any, error) {
	if (request.Stdio == nil) == (request.HTTP == nil) {
		return nil, card.Fail(card.CodeRequest, "", "serve study `%s`: expected `stdio` or `http`, and not both", request.Study)
	}
	server, err := mcp.New(mcp.Config{Store: request.Store, Study: request.Study, Version: version, Facts: factsHere, Details: request.Details})
	if err != nil {
		return nil, err
	}
	url := ""
	if request.HTTP != nil {
		if url, err = server.HTTP(request.HTTP.Address, request.HTTP.Token); err != nil {
			server.Close()
			return nil, err
		}
	} else {
		server.Stdio(os.NewFile(uintptr(request.Stdio.In), "stdin"), os.NewFile(uintptr(request.Stdio.Out), "stdout"))
	}
	servers.Lock()
	defer servers.Unlock()
	if servers.known == nil {
		servers.known = map[int]*mcp.Server{}
	}
	servers.last++
	servers.known[servers.last] = server
	return map[string]any{"server": servers.last, "url": url}, nil
}

type serverRequest struct {
	Server    int    `json:"server"`
	TimeoutMS int64  `json:"timeout_ms,omitempty"`
	Text      string `json:"text,omitempty"`
}

func serverOf(request serverRequest) (*mcp.Server, error) {
	servers.Lock()
	defer servers.Unlock()
	if server := servers.known[request.Server]; server != nil {
		return server, nil
	}
	return nil, card.Fail(card.CodeNotFound, "", "server %d is not open in this process", request.Server)
}

// pollServer says whether the server still serves, and how many candidates wait for somebody to judge them.
func pollServer(request serverRequest) (any, error) {
	server, err := serverOf(request)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(min(max(0, time.Duration(request.TimeoutMS)*time.Millisecond), longest))
	defer timer.Stop()
	select {
	case <-server.Ended():
		if err := server.Failure(); err != nil {
			return nil, err
		}
		return map[string]any{"serving": false, "waiting": server.Waiting()}, nil
	case <-timer.C:
		return map[string]any{"serving": true, "waiting": server.Waiting()}, nil
	}
}

// troubleServer has the server tell its clients why nothing can be judged; "": that it can.
func troubleServer(request serverRequest) (any, error) {
	server, err := serverOf(request)
	if err != nil {
		return nil, err
	}
	server.Trouble(request.Text)
	return struct{}{}, nil
}

func stopServer(request serverRequest) (any, error) {
	server, err := serverOf(request)
	if err != nil {
		return nil, err
	}
	server.Close()
	servers.Lock()
	defer servers.Unlock()
	delete(servers.known, request.Server)
	return struct{}{}, nil
}

type findRequest struct {
	Store string `json:"store"`
	Study string `json:"study"`
	Card  string `json:"card"`
}

// findCard gives the id of the card that is meant.
func findCard(request findRequest) (any, error) {
	return withStore(request.Store, func(s *store.Store) (any, error) {
		id, err := forge.FindCard(s, request.Study, request.Card)
		return map[string]any{"card": id}, err
	})
}
