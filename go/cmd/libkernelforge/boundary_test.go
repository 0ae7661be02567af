package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// result carries out an operation that must succeed.
func result[T any](t *testing.T, op string, request any) T {
	t.Helper()
	rc, answer := call(op, encode(t, request))
	var body struct {
		Result T               `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(answer, &body); err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	if rc != rcOK {
		t.Fatalf("%s: %s", op, body.Error)
	}
	return body.Result
}

type failure struct{ Code, Text, Hint string }

// failed carries out an operation that must fail.
func failed(t *testing.T, op string, request any) failure {
	t.Helper()
	rc, answer := call(op, encode(t, request))
	var body struct{ Error failure }
	if err := json.Unmarshal(answer, &body); err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	if rc == rcOK {
		t.Fatalf("%s answered %s (expected an error)", op, answer)
	}
	return body.Error
}

func encode(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestVersionIsTheDistributions(t *testing.T) {
	got := result[struct {
		Version string
		ABI     int
	}](t, "version", struct{}{})
	project, err := os.ReadFile("../../../pyproject.toml")
	if err != nil {
		t.Fatal(err)
	}
	if want := regexp.MustCompile(`(?m)^version = "(.+)"$`).FindSubmatch(project); want == nil || string(want[1]) != got.Version {
		t.Errorf("the core is %s, pyproject.toml says %s", got.Version, want)
	}
	header, err := os.ReadFile("kernelforge.h")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(header, []byte("#define KF_ABI_VERSION 1u")) || got.ABI != 1 {
		t.Errorf("the core has abi %d, the header another", got.ABI)
	}
}

func TestPanicBecomesAnAnswer(t *testing.T) {
	rc, answer := guarded(func() (any, error) {
		var missing map[string]int
		missing["x"] = 1
		return missing, nil
	})
	if rc != rcPanicked || !bytes.Contains(answer, []byte("assignment to entry in nil map")) || !bytes.Contains(answer, []byte("boundary_test.go")) {
		t.Errorf("answered %d, %s", rc, answer)
	}
	if rc, answer := guarded(func() (any, error) { return func() {}, nil }); rc != rcFailed || !bytes.Contains(answer, []byte("write the answer")) {
		t.Errorf("answered %d, %s", rc, answer)
	}
}

// Every operation of the document exists, and no other.
func TestDocumentedOperationsAreThere(t *testing.T) {
	text, err := os.ReadFile("../../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## the core library\n")
	section, _, _ = strings.Cut(section, "### ")
	var documented []string
	for _, match := range regexp.MustCompile("(?m)^\\| `([a-z.]+)` \\|").FindAllStringSubmatch(section, -1) {
		documented = append(documented, match[1])
	}
	for _, op := range documented {
		if operations[op] == nil {
			t.Errorf("`%s` is documented and not there", op)
		}
	}
	for op := range operations {
		if !slices.Contains(documented, op) {
			t.Errorf("`%s` is there and not documented", op)
		}
	}
}

// The core takes its configuration from kf_init and requests, and prints nothing: both would be the host process's surprise.
func TestCoreReadsNoEnvironmentAndPrintsNothing(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", `{{if not .Standard}}{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{end}}`, ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	banned := regexp.MustCompile(`\bos\.(Getenv|LookupEnv|Setenv|Stdout|Stderr)\b|\bfmt\.Print|\blog\.(Print|Fatal|Panic)|(^|\s)println\(`)
	handsOn := filepath.Join(root, "go/worker/confine.go") // PATH and LD_LIBRARY_PATH, to the processes that it starts
	files := 0
	for _, file := range strings.Fields(string(out)) {
		if !strings.HasPrefix(file, root) || file == handsOn {
			continue
		}
		files++
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for number, line := range strings.Split(string(text), "\n") {
			if code, _, _ := strings.Cut(line, "//"); banned.MatchString(code) {
				t.Errorf("%s:%d: %s", file, number+1, strings.TrimSpace(line))
			}
		}
	}
	if files < 20 {
		t.Errorf("%d files were looked at (expected the whole core)", files)
	}
}

// build makes the library as CMakeLists.txt does.
func build(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"gcc", "nm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%v (expected a C compiler and binutils)", err)
		}
	}
	path := filepath.Join(t.TempDir(), "libkernelforge.so")
	folder, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-tags", "netgo,osusergo",
		"-ldflags=-s -w -buildid= -extldflags '-Wl,--version-script="+folder+"/kernelforge.map -Wl,-soname,libkernelforge.so'", "-o", path, ".")
	command.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build the library: %v\n%s", err, out)
	}
	return path
}

func TestBoundaryFromC(t *testing.T) {
	library := build(t)
	out, err := exec.Command("nm", "-D", "--defined-only", library).Output()
	if err != nil {
		t.Fatal(err)
	}
	var symbols []string
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		fields := strings.Fields(line)
		symbols = append(symbols, fields[len(fields)-1])
	}
	if slices.Sort(symbols); !slices.Equal(symbols, []string{"kf_abi_version", "kf_call", "kf_free", "kf_init"}) {
		t.Errorf("the library exports %v (expected the four functions of kernelforge.h)", symbols)
	}
	undefined, err := exec.Command("nm", "-D", "--undefined-only", library).Output()
	if err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`\b(nvml|cu[A-Z]|sqlite3_)\w*`).FindAllString(string(undefined), -1); found != nil {
		t.Errorf("the library asks for %v when it is loaded", found)
	}
	program := filepath.Join(t.TempDir(), "smoke")
	compile := exec.Command("gcc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O1", "-o", program, "testdata/smoke.c", "-ldl", "-pthread")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("compile smoke.c: %v\n%s", err, out)
	}
	smoke := exec.Command(program, library, filepath.Join(t.TempDir(), "none.db"))
	said, err := smoke.CombinedOutput()
	if err != nil || string(said) != "ok\n" { // nothing else: the library never prints
		t.Errorf("smoke: %v\n%s", err, said)
	}
}
