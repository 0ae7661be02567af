// Command render turns cards into candidates, for tests and for the curious.
//
//	render [-isa avx512] [-sms 132] [-points default|axes|all] < cards.json > candidates.json
//
// It reads a JSON list of cards and writes a list of the same length: for each card the candidates of every family that applies, first the
// default of each family, then (axes) each parameter changed alone, or (all) every point.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/template"
)

func main() {
	host := propose.Facts{Target: "host", CacheLine: 64}
	device := propose.Facts{Target: "cuda"}
	points := flag.String("points", "default", "default, axes or all")
	flag.StringVar(&host.ISA, "isa", "avx512", "avx512, avx2 or sse2")
	flag.IntVar(&host.Threads, "threads", 2, "threads of a launch")
	flag.Int64Var(&host.L1Bytes, "l1", 48<<10, "bytes of a core's first cache")
	flag.Int64Var(&host.L2Bytes, "l2", 1<<20, "bytes of a core's second cache")
	flag.Int64Var(&host.LLCBytes, "llc", 32<<20, "bytes of the last cache")
	flag.StringVar(&device.Arch, "arch", "sm_90a", "what code for a device is compiled for")
	flag.IntVar(&device.SMCount, "sms", 132, "multiprocessors of a device")
	flag.Int64Var(&device.SmemOptin, "smem", 232448, "bytes of shared memory that a block may have")
	flag.Int64Var(&device.L2Bytes, "device-l2", 60<<20, "bytes of a device's cache")
	flag.Parse()
	if err := render(os.Stdin, os.Stdout, map[string]propose.Facts{"host": host, "cuda": device}, *points); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func render(in io.Reader, out io.Writer, facts map[string]propose.Facts, points string) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("read cards: %w", err)
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return fmt.Errorf("read cards: %w", err)
	}
	answer := make([][]card.Candidate, len(raw))
	for i, one := range raw {
		c, err := card.ReadCard(one)
		if err != nil {
			return err
		}
		if answer[i], err = candidates(c, facts[c.Target], points); err != nil {
			return err
		}
	}
	return json.NewEncoder(out).Encode(answer)
}

func candidates(c *card.Card, facts propose.Facts, points string) ([]card.Candidate, error) {
	list := []card.Candidate{}
	for _, family := range template.Runnable(c, facts) {
		params := family.Params(c, facts)
		for i, point := range template.Points(params) {
			if i > 0 && (points == "default" || (points == "axes" && changed(params, point) > 1)) {
				continue
			}
			candidate, err := template.Make(family, c, facts, point)
			if err != nil {
				return nil, err
			}
			list = append(list, candidate)
		}
	}
	return list, nil
}

func changed(params []template.Param, point template.Point) int {
	n := 0
	for _, param := range params {
		if point[param.Name] != param.Default {
			n++
		}
	}
	return n
}
