package cuda

import (
	"os"
	"path/filepath"
	"slices"
)

// majors of NVRTC that this package knows, newest first.
var majors = []string{"13", "12"}

// toolkitFolder is where a CUDA toolkit lies if nobody says otherwise. The environment (CUDA_HOME) is read by whoever configures.
const toolkitFolder = "/usr/local/cuda"

// places are where NVRTC is looked for, in order: where the configuration says and nowhere else (a file, or the folder of one); else the
// toolkit's folder; else the loader path.
func places(configured, toolkit string) []string {
	if configured != "" {
		if info, err := os.Stat(configured); err == nil && info.IsDir() {
			return inFolder(configured)
		}
		return []string{configured}
	}
	var list []string
	for _, folder := range []string{"lib64", "lib", "targets/x86_64-linux/lib"} {
		list = append(list, inFolder(filepath.Join(toolkit, folder))...)
	}
	for _, major := range majors {
		list = append(list, "libnvrtc.so."+major)
	}
	return list
}

// inFolder gives the libraries of a folder, newest first.
func inFolder(folder string) []string {
	var list []string
	for _, major := range majors {
		found, _ := filepath.Glob(filepath.Join(folder, "libnvrtc.so."+major)) // the pattern is well formed, or the folder's name makes it match nothing
		list = append(list, found...)
	}
	if bare := filepath.Join(folder, "libnvrtc.so"); len(list) == 0 {
		if _, err := os.Stat(bare); err == nil {
			list = append(list, bare)
		}
	}
	return slices.Compact(list)
}
