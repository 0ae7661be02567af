package worker

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// The test program is its own worker: started with the argument `serve` it misbehaves as the `runtime` of `hello` says.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		misbehave()
		return
	}
	if len(os.Args) == 2 && os.Args[1] == "parent" {
		parent()
		return
	}
	goleak.VerifyTestMain(m)
}

// parent starts a worker that hangs, says its number and waits to be killed.
func parent() {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	w, err := Start(context.Background(), Config{Path: path, Runtime: "hang", Scratch: os.TempDir(), Threads: 1})
	if err != nil {
		panic(err)
	}
	go w.Run(context.Background(), time.Hour, 1, nil, NoDirt, 0)
	fmt.Println(w.PID())
	select {}
}

func misbehave() {
	conn, err := NewConn(os.NewFile(3, "frames"))
	if err != nil {
		panic(err)
	}
	first, fds, err := conn.ReceiveFDs()
	if err != nil || len(fds) != 0 {
		panic(fmt.Sprint("hello: ", fds, err))
	}
	request, err := DecodeRequest(first)
	if err != nil {
		panic(err)
	}
	hello := request.(*Hello)
	answer := HelloAnswer{Answer: Answer{ID: hello.ID, OK: true}, PID: os.Getpid(), ABI: 1}
	how, rest, _ := strings.Cut(hello.Runtime, ":")
	if how == "silent" {
		select {}
	}
	if how == "refuse" {
		_ = conn.Send(Answer{ID: hello.ID, Error: &Fault{Code: FaultRequest, Text: "no such runtime\x1b[31m", Hint: "look"}}, nil)
		return
	}
	_ = conn.Send(answer, nil)
	for {
		body, fds, err := conn.ReceiveFDs()
		if err != nil {
			return
		}
		var head Header
		_ = json.Unmarshal(body, &head)
		ok := Answer{ID: head.ID, OK: true}
		if head.Op == "map" {
			request, _ := DecodeRequest(body)
			data := make([]uint64, len(request.(*Map).Buffers))
			for i := range data {
				data[i] = 0x10000 * uint64(i+1)
			}
			_ = conn.Send(MapAnswer{ok, data}, nil)
			CloseAll(fds)
			continue
		}
		switch how {
		case "honest":
			_ = conn.Send(RunAnswer{ok, 1.5}, nil)
		case "environment":
			_ = conn.Send(Answer{ID: head.ID, Error: &Fault{Code: FaultSystem, Text: strings.Join(os.Environ(), "\n")}}, nil)
		case "signal":
			number, _ := strconv.Atoi(rest)
			fmt.Fprintln(os.Stderr, "kf-fault signal=11 address=20040")
			_ = unix.Kill(os.Getpid(), syscall.Signal(number))
			select {}
		case "exit":
			os.Exit(7)
		case "hang":
			select {}
		case "deaf": // closes the stream and lives on
			conn.Close()
			select {}
		case "raw": // these bytes in place of an answer
			conn.socket.Write([]byte(rest))
		case "length":
			var head [4]byte
			binary.LittleEndian.PutUint32(head[:], MaxFrame+1)
			conn.socket.Write(head[:])
		case "answer": // this JSON, with the right id in place of ID
			_ = conn.Send(json.RawMessage(strings.ReplaceAll(rest, "ID", fmt.Sprint(head.ID))), nil)
		case "descriptor": // sends a descriptor that nobody asked for
			_ = conn.Send(RunAnswer{ok, 1}, []int{0, 1, 2})
		case "child": // leaves a process in its group, tells its number, and ends
			command := exec.Command("/bin/sleep", "1000")
			_ = command.Start()
			_ = conn.Send(RunAnswer{ok, float64(command.Process.Pid)}, nil)
			os.Exit(0)
		}
	}
}
