package prices

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/model"
)

//go:embed prices.json.gz
var packed []byte

// Date is the day of the table.
const Date = "2026-08-21"

// provider is a provider of models and its prices.
type provider struct {
	ID        string   `json:"id"`
	URL       string   `json:"api_pattern"` // a regular expression for the beginning of base URLs
	Names     *clause  `json:"model_match"` // of models that are this provider's wherever they are asked for
	Fallbacks []string `json:"fallback_model_providers"`
	Models    []priced `json:"models"`

	url *regexp.Regexp
}

type priced struct {
	ID     string `json:"id"`
	Match  clause `json:"match"`
	Prices stages `json:"prices"`
}

// clause is a condition on the name of a model. One of its fields is set.
type clause struct {
	Equals   string   `json:"equals"`
	Starts   string   `json:"starts_with"`
	Ends     string   `json:"ends_with"`
	Contains string   `json:"contains"`
	Regex    string   `json:"regex"`
	Or       []clause `json:"or"`
	And      []clause `json:"and"`
}

// fits reports whether a name, in lower case, fulfils the condition.
func (c clause) fits(name string) bool {
	fits := func(one clause) bool { return one.fits(name) }
	switch {
	case c.Equals != "":
		return strings.EqualFold(name, c.Equals)
	case c.Starts != "":
		return strings.HasPrefix(name, strings.ToLower(c.Starts))
	case c.Ends != "":
		return strings.HasSuffix(name, strings.ToLower(c.Ends))
	case c.Contains != "":
		return strings.Contains(name, strings.ToLower(c.Contains))
	case c.Regex != "":
		matched, err := regexp.MatchString(c.Regex, name)
		return err == nil && matched
	case len(c.Or) > 0:
		return slices.ContainsFunc(c.Or, fits)
	case len(c.And) > 0:
		return !slices.ContainsFunc(c.And, func(one clause) bool { return !one.fits(name) })
	}
	return false
}

// stages are the prices of a model. The last one whose condition holds applies.
type stages []stage

type stage struct {
	When struct {
		From  string `json:"start_date"` // a day
		Begin string `json:"start_time"` // of each day, in UTC
		End   string `json:"end_time"`
	} `json:"constraint"`
	Prices rates `json:"prices"`
}

// UnmarshalJSON implements json.Unmarshaler. Prices that are always the same are written without a
// list.
func (s *stages) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]stage)(s))
	}
	var one stage
	if err := json.Unmarshal(data, &one.Prices); err != nil {
		return err
	}
	*s = stages{one}
	return nil
}

// holds reports whether the prices hold at a time.
func (s stage) holds(at time.Time) bool {
	at = at.UTC()
	if s.When.From != "" && at.Format(time.DateOnly) < s.When.From {
		return false
	}
	if s.When.Begin == "" {
		return true
	}
	const clock = "15:04:05Z"
	now := at.Format(clock)
	if s.When.Begin <= s.When.End {
		return s.When.Begin <= now && now < s.When.End
	}
	return s.When.Begin <= now || now < s.When.End // over midnight
}

// rates are prices in US dollars per million tokens; nil means no price.
type rates struct {
	Input          *rate    `json:"input_mtok"`
	Output         *rate    `json:"output_mtok"`
	CacheRead      *rate    `json:"cache_read_mtok"`
	CacheWrite     *rate    `json:"cache_write_mtok"`
	CacheWriteHour *rate    `json:"cache_write_1h_mtok"`
	Reasoning      *rate    `json:"output_reasoning_mtok"`
	Requests       *float64 `json:"requests_kcount"`     // per thousand requests
	Searches       *float64 `json:"web_searches_kcount"` // per thousand searches of the web
}

// rate is a price that may depend on the length of the input: that of the highest exceeded tier
// applies to all tokens.
type rate struct {
	Base  float64 `json:"base"`
	Tiers []struct {
		Start int64   `json:"start"`
		Price float64 `json:"price"`
	} `json:"tiers"`
}

// UnmarshalJSON implements json.Unmarshaler. A price without tiers is a number.
func (r *rate) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		type plain rate
		return json.Unmarshal(data, (*plain)(r))
	}
	return json.Unmarshal(data, &r.Base)
}

func (r *rate) of(input int64) float64 {
	price, from := r.Base, int64(0)
	for _, t := range r.Tiers {
		if input > t.Start && t.Start >= from {
			price, from = t.Price, t.Start
		}
	}
	return price
}

// table returns the providers.
var table = sync.OnceValue(func() []provider {
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic(err) // it is a part of the program, and tests read it
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		panic(err)
	}
	var list []provider
	if err := json.Unmarshal(text, &list); err != nil {
		panic(err)
	}
	for i := range list {
		list[i].url = regexp.MustCompile("^(?:" + list[i].URL + ")")
	}
	return list
})

// find returns the prices of a model at a base URL: those of the URL's provider or, failing that,
// of the providers whose models it also offers. An unknown URL, such as a company's own proxy, has
// no prices.
func find(baseURL, name string) stages {
	name = strings.ToLower(name)
	list := table()
	i := slices.IndexFunc(list, func(p provider) bool { return p.url.MatchString(baseURL) })
	if i < 0 {
		return nil
	}
	for _, id := range append([]string{list[i].ID}, list[i].Fallbacks...) {
		j := slices.IndexFunc(list, func(p provider) bool { return p.ID == id })
		if j < 0 {
			continue
		}
		for _, m := range list[j].Models {
			if m.Match.fits(name) {
				return m.Prices
			}
		}
	}
	return nil
}

// Known reports whether the table has the price of a model at a base URL now.
func Known(baseURL, name string, now time.Time) bool {
	r := at(find(baseURL, name), now)
	return r != nil && r.Input != nil && r.Output != nil
}

func at(s stages, when time.Time) *rates {
	var r *rates
	for i := range s {
		if s[i].holds(when) {
			r = &s[i].Prices
		}
	}
	return r
}

// Cost returns the cost of an answer in US dollars; nil if it is not known. The provider's own
// figure wins.
func Cost(baseURL, name string, when time.Time, u model.Usage) *float64 {
	if u.CostUSD != nil {
		return u.CostUSD
	}
	r := at(find(baseURL, name), when)
	if r == nil || r.Input == nil || r.Output == nil || u.Input == nil || u.Output == nil {
		return nil
	}
	count := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		return max(0, *n)
	}
	input, output := count(u.Input), count(u.Output)
	read, written := min(count(u.Cached), input), count(u.CacheWrite)
	written = min(written, input-read)
	hour := min(count(u.CacheWriteHour), written)
	thought := min(count(u.Reasoning), output)
	price := func(own, instead *rate, tokens int64) float64 {
		if own == nil {
			own = instead
		}
		return own.of(input) * float64(tokens)
	}
	total := price(r.Input, nil, input-read-written) + price(r.CacheRead, r.Input, read) + price(r.CacheWrite, r.Input, written-hour)
	longer := r.CacheWriteHour
	if longer == nil {
		longer = r.CacheWrite
	}
	total += price(longer, r.Input, hour) + price(r.Output, nil, output-thought) + price(r.Reasoning, r.Output, thought)
	total /= 1e6
	if r.Requests != nil {
		total += *r.Requests / 1000
	}
	if r.Searches != nil {
		total += *r.Searches / 1000 * float64(count(u.Searches))
	}
	return &total
}

// Searches reports whether Cost includes a model's web searches: they have a price, or the price of
// a request includes them.
func Searches(baseURL, name string, when time.Time) bool {
	r := at(find(baseURL, name), when)
	return r != nil && (r.Searches != nil || r.Requests != nil)
}
