package card

// counters.go owns the form of what a device's hardware counted while a candidate ran.

// Counters are of one run of one variant, with cold caches. Without kernels, Why says why there are none.
type Counters struct {
	Variant string           `json:"variant,omitempty"`
	Kernels []KernelCounters `json:"kernels,omitempty"` // each launch of the run, in order
	Why     string           `json:"why,omitempty"`
}

// KernelCounters are the counters of one launch by their names (docs/formats.md, `counters`). One that the device does not have is missing.
type KernelCounters struct {
	Entry  string             `json:"entry"`
	Values map[string]float64 `json:"values"`
}
