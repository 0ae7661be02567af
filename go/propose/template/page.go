package template

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed host cuda
var pages embed.FS

// A family's page is host/<name>.cc or cuda/<name>.cu. As the compiler gets it, a line `// @include <file>` is replaced by that file of the
// same folder, with its own such lines replaced; a line `// @<part>` by the part of that name.
func hostPage(name string, parts map[string]string) string { return page("host", name+".cc", parts) }
func cudaPage(name string, parts map[string]string) string { return page("cuda", name+".cu", parts) }

func page(folder, file string, parts map[string]string) string {
	var text strings.Builder
	writePage(&text, folder, file, parts)
	return text.String()
}

func writePage(text *strings.Builder, folder, file string, parts map[string]string) {
	for line := range strings.Lines(pageFile(folder, file)) {
		mark, marked := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "// @")
		included, include := strings.CutPrefix(mark, "include ")
		switch part, given := parts[mark]; {
		case !marked:
			text.WriteString(line)
		case include:
			writePage(text, folder, included, parts)
		case given:
			text.WriteString(strings.TrimSuffix(part, "\n") + "\n")
		default:
			panic(fmt.Sprintf("page %s/%s: nothing given for `%s`", folder, file, mark))
		}
	}
}

func hostFile(name string) string { return pageFile("host", name) }

func pageFile(folder, name string) string {
	text, err := pages.ReadFile(folder + "/" + name)
	if err != nil {
		panic(err) // the files are in the binary; the tests build every page
	}
	return string(text)
}
