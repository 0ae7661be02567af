package cuda

import _ "embed"

// Dirt is the source of a kernel of ours that leaves a word in all shared memory and registers; DirtEntry is its name.
//
//go:embed dirt.cu
var Dirt string

const DirtEntry = "kf_dirt"
