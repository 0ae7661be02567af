package cuda

import _ "embed"

// Control is the source of a kernel of ours that has no fault, kf_main; a block of it has ControlThreads.
//
//go:embed control.cu
var Control string

const ControlThreads = 64
