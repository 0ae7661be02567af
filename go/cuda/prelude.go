package cuda

import _ "embed"

// PreludeName is what a candidate calls the prelude: the one header that every candidate may include, and that is in front of its source.
const PreludeName = "kf_kernel.cuh"

// Prelude is that header's text.
//
//go:embed prelude/kf_kernel.cuh
var Prelude string
