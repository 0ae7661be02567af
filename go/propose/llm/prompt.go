package llm

// prompt.go owns what a model is told: templates in prompt/, filled from the brief that people and agents get too. What is not written here stays
// on this machine.

import (
	"embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"text/template"

	"github.com/kernelforge/kernelforge/go/card"
	"github.com/kernelforge/kernelforge/go/propose"
	"github.com/kernelforge/kernelforge/go/propose/brief"
)

// PromptSchema is the version of the prompt: part of every request, and so of its key.
const PromptSchema = 1

// What a prompt may hold of each, in bytes; and how many.
const (
	quotedSource = 32 << 10
	quotedSpec   = 4 << 10
	quotedLog    = 4 << 10
	quotedIdea   = 240
	tellVariants = 8
	tellSiblings = 12
	tellNames    = 60
	tellSlots    = 24
)

//go:embed prompt
var folder embed.FS

var (
	remark     = regexp.MustCompile(`^<!-- schema ([0-9]+):[^\n]*-->\n`)
	templates  = load()
	directions = func() (d map[string]string) {
		text, _ := folder.ReadFile("prompt/directions.json")
		if err := json.Unmarshal(text, &d); err != nil {
			panic(err)
		}
		return d
	}()
)

// load parses the templates. Each begins with the version that it was written for.
func load() *template.Template {
	all := template.New("").Option("missingkey=error")
	for _, name := range []string{"system", "task", "new", "repair"} {
		text, err := folder.ReadFile("prompt/" + name + ".md")
		if err != nil {
			panic(err)
		}
		if found := remark.FindSubmatch(text); found == nil || string(found[1]) != fmt.Sprint(PromptSchema) {
			panic(fmt.Sprintf("prompt/%s.md is not of schema %d", name, PromptSchema))
		}
		template.Must(all.New(name).Parse(remark.ReplaceAllString(string(text), "")))
	}
	return all
}

func fill(name string, data any) (string, error) {
	var text strings.Builder
	if err := templates.ExecuteTemplate(&text, name, data); err != nil {
		return "", fmt.Errorf("write the prompt `%s`: %w", name, err)
	}
	return blankLines.ReplaceAllString(strings.TrimSpace(text.String()), "\n\n") + "\n", nil
}

var blankLines = regexp.MustCompile(`\n{3,}`)

// prompt is the request's messages: what is the same for every card of a target first, so that servers can keep it in their caches.
func (a *Author) prompt(from propose.Brief) ([]Message, error) {
	told := brief.Of(from, nil)
	system, err := fill("system", map[string]any{"Language": language(from.Card.Target), "Launch": told.Launch, "Checks": told.Checks,
		"Example": example(from.Card.Target, told.Launch.Example)})
	if err != nil {
		return nil, err
	}
	task, err := a.task(from, told)
	if err != nil {
		return nil, err
	}
	return []Message{{"system", system}, {"user", task}}, nil
}

// example is the brief's example in the form of a reply.
func example(target string, e brief.Example) string {
	text, err := json.MarshalIndent(header{Change: "the plain way: one pass", Spec: e.Spec}, "", " ")
	if err != nil {
		panic(err) // strings only
	}
	return fmt.Sprintf("```%s\n%s```\n\n```json\n%s\n```\n", language(target), e.Source, text)
}

func language(target string) string {
	if target == "cuda" {
		return "cuda"
	}
	return "cpp"
}

type page struct {
	Card                                  brief.Card
	Signature, Slots, Names, Machine, Ask string
	Variants                              []variant
	MoreVariants                          int
	Inputs                                []string // what they hold, where the user chose to tell
	Path, Siblings                        []string
	Parent                                *parent
}

type variant struct{ ID, Tensors, Calls, Eager, Bytes, Roof string }

type parent struct {
	Costs, Change, Source, Spec string
	Diagnosis                   []string
}

func (a *Author) task(from propose.Brief, told brief.Brief) (string, error) {
	p := page{Card: told.Card, Signature: signature(from.Card.Variants[0].Call), Machine: machine(told.Target), Slots: few(told.Launch.Slots, tellSlots), Names: names(told.Launch.Names)}
	for i, v := range told.Card.Variants {
		if i == tellVariants {
			p.MoreVariants = len(told.Card.Variants) - i
			break
		}
		for _, input := range v.Arguments {
			if input.Values != nil {
				p.Inputs = append(p.Inputs, fmt.Sprintf("%s, `%s`: %s", v.ID, input.Slot, brief.Holds(*input.Values)))
			}
		}
		p.Variants = append(p.Variants, variant{v.ID, shapes(v), fmt.Sprint(v.Calls), fmt.Sprintf("%.4g", v.EagerUS), fmt.Sprint(v.Bytes), fmt.Sprintf("%.4g", v.RoofUS)})
	}
	if n := len(from.Lineage); n > 0 {
		p.Parent = a.parent(from.Lineage[n-1], from)
		for i, step := range from.Lineage {
			p.Path = append(p.Path, fmt.Sprintf("%d: %s: %s", i+1, a.scrub.line(step.Candidate.Change, quotedIdea), a.ended(step.Verdict)))
		}
	}
	tried := from.Children
	for _, child := range tried[max(0, len(tried)-tellSiblings):] {
		p.Siblings = append(p.Siblings, fmt.Sprintf("%s: %s", a.scrub.line(child.Candidate.Change, quotedIdea), a.ended(child.Verdict)))
	}
	var err error
	if p.Ask, err = a.demand(from); err != nil {
		return "", err
	}
	return fill("task", p)
}

// parent tells what stands above a new idea. While a failure is mended its code is left out: the failing one is there.
func (a *Author) parent(attempt propose.Attempt, from propose.Brief) *parent {
	p := &parent{Costs: costs(attempt.Verdict, from.Card), Change: a.scrub.line(attempt.Candidate.Change, quotedIdea), Diagnosis: a.diagnosis(attempt, from)}
	if from.Repair == nil {
		p.Source, p.Spec = a.code(attempt.Candidate, from.Card)
	}
	return p
}

func (a *Author) code(candidate card.Candidate, c *card.Card) (source, spec string) {
	text, err := json.Marshal(candidate.Spec)
	if err != nil {
		panic(err) // strings only
	}
	return a.scrub.quote(language(c.Target), candidate.Source, quotedSource), a.scrub.quote("json", string(text), quotedSpec)
}

// demand is the last part: a new idea, or a failure to mend.
func (a *Author) demand(from propose.Brief) (string, error) {
	attempt := func(of *propose.Attempt) map[string]any {
		source, spec := a.code(of.Candidate, from.Card)
		return map[string]any{"Change": a.scrub.line(of.Candidate.Change, quotedIdea), "Verdict": a.outcome(of.Verdict), "Source": source, "Spec": spec}
	}
	if from.Repair == nil {
		direction := from.Direction
		if _, known := directions[direction]; !known {
			direction = ""
		}
		data := map[string]any{"HasParent": len(from.Lineage) > 0, "Direction": direction, "DirectionText": directions[direction], "Again": nil}
		if from.Again != nil && from.Again.Candidate.Source != "" {
			data["Again"] = attempt(from.Again)
		}
		return fill("new", data)
	}
	data := attempt(from.Repair)
	if from.Repair.Candidate.Source == "" {
		data["Source"] = ""
	}
	return fill("repair", data)
}

func machine(t brief.Target) string {
	facts := make([]string, len(t.Facts))
	for i, fact := range t.Facts {
		facts[i] = fmt.Sprintf("%s %v", fact.Name, fact.Value)
	}
	return map[string]string{"host": "A CPU", "cuda": "A GPU"}[t.Name] + ": " + strings.Join(facts, ", ") + "."
}

// diagnosis reads what is known of its kernels beside the time: what may keep a multiprocessor from being filled, and what its hardware counted.
func (a *Author) diagnosis(attempt propose.Attempt, from propose.Brief) []string {
	lines := brief.Kernels(from.Facts, attempt.Candidate.Spec, attempt.Verdict.Usage)
	lines = append(lines[:min(len(lines), maxParts)], brief.Counted(from.Card, attempt.Counters)...)
	lines = lines[:min(len(lines), 2*maxParts)]
	for i, line := range lines {
		lines[i] = clean(a.scrub.text(line, 900), 900) // names of entries are an author's, and some words are of ncu
	}
	return lines
}
