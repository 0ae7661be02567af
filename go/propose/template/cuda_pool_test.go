package template

import "testing"

// The borders of adaptive windows are products of two sizes, which may need more than the indices of the tensors do.
func TestBordersOfAdaptiveWindowsFit(t *testing.T) {
	for _, test := range []struct {
		high, outs int64
		want       string
	}{{30, 7, "int32_t"}, {1 << 16, 1 << 15, "int64_t"}, {1 << 15, 1 << 15, "int32_t"}} {
		call := adaptiveCall()
		in, out := []int64{1, 1, test.high, 2}, []int64{1, 1, test.outs, 1}
		call.Args[0] = tensorArg("self", "float16", laid(in), in...)
		call.Args[1] = plainArg("output_size", "ints", []int64{test.outs, 1})
		call.Outputs[0] = output("float16", laid(out), out...)
		candidate, err := Make(cudaAvgPoolTeams{}, onCuda(call), h200, Point{"THREADS": 256, "TEAM": 1})
		if err != nil {
			t.Fatal(err)
		}
		if got := candidate.Spec.Constants["INDEX"]; got != test.want {
			t.Errorf("%d outputs of %d: indices are `%s` (expected `%s`)", test.outs, test.high, got, test.want)
		}
	}
}
