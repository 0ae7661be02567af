package brief

// text.go owns a brief as people read it.

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"text/template"

	"github.com/kernelforge/kernelforge/go/card"
)

//go:embed brief.md
var page string

var pages = template.Must(template.New("brief").Funcs(template.FuncMap{
	"us":       func(t float64) string { return fmt.Sprintf("%.4g us", t) },
	"percent":  func(part float64) string { return fmt.Sprintf("%.3g %%", 100*part) },
	"cost":     func(c float64) string { return fmt.Sprintf("%.4f", c) },
	"join":     func(words []string) string { return strings.Join(words, ", ") },
	"inc":      func(i int) int { return i + 1 },
	"argument": argument,
	"names":    names,
	"step":     step,
	"json": func(value any) (string, error) {
		text, err := json.MarshalIndent(value, "", " ")
		return string(text), err
	},
}).Parse(page))

// Text gives the brief as one page of Markdown.
func Text(b Brief) string {
	var text strings.Builder
	if err := pages.Execute(&text, b); err != nil {
		panic(err) // the page is ours, and a test renders it
	}
	return text.String()
}

func argument(a Argument) string {
	if a.Slot == "" {
		if a.Value == "" {
			return fmt.Sprintf("%s: %s", a.Name, a.Kind)
		}
		return fmt.Sprintf("%s = %s", a.Name, a.Value)
	}
	text := fmt.Sprintf("%s: %s %v strides %v", a.Slot, a.DType, a.Sizes, a.Strides)
	if a.Align > 0 {
		text += fmt.Sprintf(" aligned to %d bytes", min(a.Align, 16)) // more is not promised: a plan's guard asks for at most 16
	}
	if a.Values != nil {
		text += ", " + Holds(*a.Values)
	}
	if a.Alias != "" {
		text += fmt.Sprintf(" (it is `%s`)", a.Alias)
	}
	return text
}

// Holds says what a tensor holds.
func Holds(v card.Values) string {
	return fmt.Sprintf("values: mean %g, deviation %g, from %g to %g, %g %% zeros", v.Mean, v.Deviation, v.Least, v.Largest, 100*v.Zeros)
}

func names(all []Name) string {
	var words []string
	for _, name := range all {
		words = append(words, fmt.Sprintf("%s=%d", name.Name, name.Value))
	}
	return strings.Join(words, " ")
}

func step(s Step) string {
	words := []string{string(s.Status)}
	if s.Cost > 0 {
		words[0] += fmt.Sprintf(", cost %.4f", s.Cost)
	}
	if s.Author != "" {
		words = append(words, "by "+strings.TrimSpace(s.Author+" "+s.Family))
	}
	if s.Change != "" {
		words = append(words, s.Change)
	}
	if s.Why != "" {
		words = append(words, "why: "+strings.ReplaceAll(s.Why, "\n", "\n    "))
	}
	return strings.Join(words, "; ")
}
