package template

import (
	"embed"
	"fmt"
	"regexp"
	"strings"
)

//go:embed host cuda
var pages embed.FS

var pageLine = regexp.MustCompile(`(?m)^// @(include )?(\S+)$`)

// A family's page is host/<name>.cc or cuda/<name>.cu. As the compiler gets it, a line `// @include <file>` is replaced by that file of the
// same folder, with its own such lines replaced; a line `// @<part>` by the part of that name.
func hostPage(name string, parts map[string]string) string { return page("host", name+".cc", parts) }
func cudaPage(name string, parts map[string]string) string { return page("cuda", name+".cu", parts) }

func page(folder, file string, parts map[string]string) string {
	return pageLine.ReplaceAllStringFunc(pageFile(folder, file), func(line string) string {
		if file, ok := strings.CutPrefix(line, "// @include "); ok {
			return strings.TrimSuffix(page(folder, file, parts), "\n")
		}
		part, ok := parts[strings.TrimPrefix(line, "// @")]
		if !ok {
			panic(fmt.Sprintf("page %s/%s: nothing given for `%s`", folder, file, line))
		}
		return strings.TrimSuffix(part, "\n")
	})
}

func hostFile(name string) string { return pageFile("host", name) }

func pageFile(folder, name string) string {
	text, err := pages.ReadFile(folder + "/" + name)
	if err != nil {
		panic(err) // the files are in the binary; the tests build every page
	}
	return string(text)
}
