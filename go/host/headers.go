package host

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kernelforge/kernelforge/go/compile"
)

// The system's headers, compiled once. Four of them stand in the prelude, and reading them is four fifths of a small kernel's compile. g++ takes them
// in compiled, as one file that it maps, and makes the same code to the bit.
//
// Nothing depends on it. Where the file is not made, not whole, or not of this compiler, g++ reads the text beside it; and what it says of the file
// itself is no verdict about a source, which is then compiled without it.

const (
	headersText = "kf_system.h"
	headersMade = headersText + ".gch" // where g++ looks for it
	headersRoom = 256 << 20            // that is free in the scratch folder: it takes 40 MB of what compiles need
)

var (
	// systemHeaders are the prelude's includes. Constants of a candidate rewrite other lines of it, so these alone are the same for all.
	systemHeaders = strings.Join(regexp.MustCompile(`(?m)^#include <.*>\n`).FindAllString(Prelude, -1), "")

	// headersFlags compile them as Flags do a source, whose language comes first and whose prelude comes last. With a linker's flag g++ would link.
	headersFlags = slices.DeleteFunc(slices.Concat([]string{"-x", "c++-header"}, Flags[2:len(Flags)-2]), func(flag string) bool {
		return flag == "-shared" || flag == "-nostartfiles" || strings.HasPrefix(flag, "-Wl,")
	})

	ofHeaders = regexp.MustCompile(`\bPCH\b|\.gch\b`) // words in which g++ speaks of the file
)

// headers gives the folder with the compiled headers; "": there are none. They are sought at the first compile that the cache does not answer, and the
// cache keeps them; without one they are not worth what they take. What fails here fails again, and is told, in the compile that follows.
func (p *Pool) headers(ctx context.Context) string {
	if p.cache == nil || !strings.HasPrefix(p.compiler.Pin, "g++ ") {
		return ""
	}
	p.making.Lock()
	defer p.making.Unlock()
	if !p.sought {
		folder, err := p.makeHeaders(ctx)
		p.folder, p.sought = folder, err == nil
	}
	return p.folder
}

func (p *Pool) makeHeaders(ctx context.Context) (folder string, err error) {
	if compile.Free(p.scratch) < headersRoom {
		return "", nil
	}
	key := p.key(systemHeaders, headersFlags)
	kept := p.cache.Of(".gch")
	made, err := kept.Get(key)
	if err == nil && made == nil {
		var built compile.Built
		if built, err = p.compile(ctx, Job{Options: []string{}, Source: systemHeaders, Headers: true}); err != nil || built.Image == nil {
			return "", err
		}
		made, err = built.Image, kept.Put(key, built.Image)
	}
	if err == nil {
		folder, err = os.MkdirTemp(p.scratch, "headers-")
	}
	for name, content := range map[string][]byte{headersText: []byte(systemHeaders), headersMade: made} {
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), content, 0o400)
		}
	}
	return folder, err
}
