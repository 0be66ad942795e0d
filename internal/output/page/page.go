package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"io"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/output/prompt"
)

// DefaultLimit bounds the bytes of a page: browsers open it at once, and it is small among a job's
// files.
const DefaultLimit = 2 << 20

//go:embed templates
var files embed.FS

//go:embed assets/page.css
var css string

//go:embed assets/page.js
var js string

//go:embed assets/live.js
var liveJS string

var templates = template.Must(template.New("page").ParseFS(files, "templates/*.html"))

// head holds the values of the beginning and the end of every page.
type head struct {
	Head    string // the title in the browser's tab
	Policy  string // the Content-Security-Policy
	Version string // of what a live page shows; "": it is not live
	CSS     template.CSS
	JS      template.JS
	LiveJS  template.JS
}

// newHead returns the head of a page. A live page compares version with that of its server now and
// then, and is loaded again if it differs.
func newHead(title, version string) head {
	h := head{Head: title, Policy: Policy(version != ""), Version: version, CSS: template.CSS(css), JS: template.JS(js)} //nolint:gosec // both are this program's own
	if version != "" {
		h.LiveJS = template.JS(liveJS) //nolint:gosec // it is this program's own
	}
	return h
}

// frame is a job as a page.
type frame struct {
	head
	Page
}

// Policy returns the Content-Security-Policy of a page: it loads nothing, and only this program's
// own style and scripts count. A live one may ask its own server.
func Policy(live bool) string {
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	scripts, connect := hash(js), ""
	if live {
		scripts, connect = scripts+" "+hash(liveJS), "connect-src 'self'; "
	}
	return "default-src 'none'; img-src data:; " + connect + "style-src " + hash(css) + "; script-src " + scripts + "; base-uri 'none'; form-action 'none'"
}

// Write writes a job as one page of at most limit bytes; 0 means DefaultLimit. To stay within it,
// the ends of logs and conversations become shorter, then trials are left out, those that passed
// first, and then rows. The page lists omitted parts and their files. Write fails only if w does.
func Write(w io.Writer, in report.Input, limit int) error {
	if limit == 0 {
		limit = DefaultLimit
	}
	text, err := fit(in, limit)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// fit returns the page with the most detail that is not longer than limit.
func fit(in report.Input, limit int) ([]byte, error) {
	cases := report.Cases(in)
	weight := 0 // of trials that failed; the others have an eighth of their bytes
	for _, t := range in.Trials {
		weight += 8
		if t.Passed() {
			weight -= 7
		}
	}
	d := detail{trials: len(in.Trials), rows: len(cases), prompts: prompt.New(in), past: true}
	pictures := charts(in, cases) // once: they are made of many files
	d.charts = &pictures
	var text []byte
	for {
		var err error
		if text, err = render(build(in, cases, d)); err != nil {
			return nil, err
		}
		if len(text) <= limit || d == (detail{}) {
			break
		}
		d = d.less()
	}
	if d.trials == 0 {
		return text, nil
	}
	// Texts are longer as HTML, so the first guess may be too much.
	room := limit - len(text)
	for d.bytes = min(room*8/max(weight, 1), maxDetails); d.bytes >= minDetails; {
		more, err := render(build(in, cases, d))
		if err != nil {
			return nil, err
		}
		if len(more) <= limit {
			return more, nil
		}
		d.bytes = int(float64(d.bytes) * min(float64(room)/float64(len(more)-len(text)), 1) * 0.9)
	}
	return text, nil
}

// detail is the level of detail of a page.
type detail struct {
	bytes  int // of the logs and the conversation of one trial
	trials int // with a section
	rows   int // of the table of tasks
	// pages: trials have pages instead of sections
	pages *Site
	past  bool // earlier runs
	// running is the job if it runs, so that trials without a result may have begun; nil: they were
	// skipped
	running *report.Input
	charts  *[]Chart
	// prompts writes those of the trials; nil: none
	prompts *prompt.Prompts
}

// Bounds of the logs and the conversation of one trial. With less than minDetails, it has none.
const (
	minDetails = 300
	maxDetails = 400_000
)

// less returns the next lower level without logs and conversations.
func (d detail) less() detail {
	switch {
	case d.past && d.trials == 0:
		d.past = false
	case d.trials > 50:
		d.trials = d.trials * 2 / 3
	case d.trials > 0:
		d.trials = 0
	case d.rows > 50:
		d.rows = d.rows * 2 / 3
	default:
		return detail{}
	}
	return d
}

// render returns a page as HTML.
func render(p Page) ([]byte, error) {
	var b bytes.Buffer
	err := templates.ExecuteTemplate(&b, "page.html", frame{newHead(p.Title+" · "+p.Job, p.version), p})
	return b.Bytes(), err
}

// oneLine returns a name or a sentence from outside, fit to be shown and not too long.
func oneLine(s string) string {
	return cut(s, maxSentence)
}
