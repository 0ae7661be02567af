package budget

// forecast.go owns what a study will spend on authors, told before the first call. It refuses to be a limit.

import (
	"fmt"
	"math"
)

// Plan is what is going to be asked, in means of one call.
type Plan struct {
	Calls     int64
	TokensIn  float64
	TokensOut float64
	Seconds   float64
	InFlight  int
	Price     *Price // nil: unknown
	Basis     string // where the means come from
}

// Forecast is what a plan comes to, within the limits.
type Forecast struct {
	Calls     int64   `json:"calls"`
	TokensIn  int64   `json:"tokens_in"`
	TokensOut int64   `json:"tokens_out"`
	USD       float64 `json:"usd"`
	Priced    bool    `json:"priced"` // false: the price is unknown, and usd is 0
	Seconds   float64 `json:"seconds"`
	Ends      string  `json:"ends,omitempty"` // the limit that ends it before its last call, by its name in Limits
	Basis     string  `json:"basis"`
}

// Forecast tells what a plan comes to. A limit that is nearer than its last call ends it there.
func (b *Budget) Forecast(p Plan) Forecast {
	each := Amount{TokensIn: int64(math.Round(p.TokensIn)), TokensOut: int64(math.Round(p.TokensOut))}
	if p.Price != nil {
		each.USD = (p.TokensIn*p.Price.In + p.TokensOut*p.Price.Out) / 1e6
	}
	f := Forecast{Calls: max(0, p.Calls), Priced: p.Price != nil, Basis: p.Basis}
	spent := b.Spent()
	for _, line := range b.limits.lines() {
		if line.limit == nil {
			continue
		}
		calls := f.Calls
		switch one := line.of(each); {
		case line.name == "usd" && *line.limit == 0:
			calls = 0
		case one > 0:
			calls = int64(max(0, math.Floor((*line.limit-line.of(spent))/one)))
		}
		if calls < f.Calls {
			f.Calls, f.Ends = calls, line.name
		}
	}
	f.Seconds = math.Ceil(float64(f.Calls)/float64(max(1, p.InFlight))) * p.Seconds
	if end, ok := b.Deadline(); ok && f.Calls > 0 {
		if left := max(0, end.Sub(b.now()).Seconds()); left < f.Seconds {
			f.Calls, f.Seconds, f.Ends = int64(float64(f.Calls)*left/f.Seconds), left, "wall_s"
		}
	}
	f.TokensIn, f.TokensOut = int64(math.Round(float64(f.Calls)*p.TokensIn)), int64(math.Round(float64(f.Calls)*p.TokensOut))
	f.USD = float64(f.Calls) * each.USD
	return f
}

// String is one line for people.
func (f Forecast) String() string {
	cost := "price unknown"
	if f.Priced {
		cost = fmt.Sprintf("%.2f USD", f.USD)
		if f.USD > 0 && f.USD < 0.1 {
			cost = fmt.Sprintf("%.4f USD", f.USD)
		}
	}
	text := fmt.Sprintf("%d calls, %d tokens in, %d out, %s, %.0f s (%s)", f.Calls, f.TokensIn, f.TokensOut, cost, f.Seconds, f.Basis)
	if f.Ends != "" {
		text += fmt.Sprintf("; the limit `%s` ends it", f.Ends)
	}
	return text
}
