package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// boundedHome is the package that decodes untrusted JSON with bounded memory.
const boundedHome = "internal/lib/bounded"

// decoders lists, by package, the functions whose memory use depends on the decoded text.
var decoders = map[string][]string{
	"encoding/json":                               {"Unmarshal", "NewDecoder"},
	"encoding/xml":                                {"Unmarshal", "NewDecoder"},
	"github.com/go-json-experiment/json":          {"Unmarshal", "UnmarshalRead", "UnmarshalDecode"},
	"github.com/go-json-experiment/json/jsontext": {"NewDecoder"},
	"github.com/go-json-experiment/json/v1":       {"Unmarshal", "NewDecoder"},
}

// unbounded lists the files that call them, with the number of calls and the reason why a few bytes
// cannot take much memory there. Other readers use package bounded. Providers are not listed: they
// read answers of their platform.
var unbounded = map[string]exception{
	"internal/action/step.go":                 {1, "what an earlier step of this action saved"},
	"internal/lib/cache/dir.go":               {1, "a note in the cache, which this program wrote"},
	"internal/lib/cache/file.go":              {1, "the head of a file in the cache, which this program wrote"},
	"internal/core/config/amount.go":          {2, "a single text and a number"},
	"internal/core/config/json.go":            {2, "it counts the values"},
	"internal/run/dataset/fetch.go":           {1, "a note in the cache, which this program wrote"},
	"internal/forge/github/env.go":            {1, "the event, which GitHub's runner wrote"},
	"internal/forge/github/transport.go":      {1, "two texts of an answer of GitHub's"},
	"internal/run/job/lock.go":                {1, "at most 4096 bytes"},
	"internal/run/job/resume/drift.go":        {1, "a configuration that was decoded before"},
	"internal/core/judge/verdict.go":          {1, "it counts the values"},
	"internal/lib/fields/encode.go":           {1, "a single text"},
	"internal/model/inspect/json.go":          {1, "a single text"},
	"internal/model/prices/prices.go":         {5, "the list of prices in this program"},
	"internal/model/record.go":                {1, "a single text"},
	"internal/model/replay/content.go":        {1, "a request of an agent, whose length the gateway bounds"},
	"internal/model/scripted/script.go":       {1, "the parameters of tools, which the gateway has decoded"},
	"internal/output/prompt/instruction.go":   {1, "one member at a time, as text"},
	"internal/run/registry/http.go":           {1, "a note in the cache, which this program wrote"},
	"internal/run/registry/parse.go":          {2, "methods of values that are decoded by internal/lib/bounded"},
	"internal/core/report/tests.go":           {2, "one test case at a time, and the attributes of an element are counted"},
	"internal/core/result/head.go":            {1, "one member at a time, as text, and they are counted"},
	"internal/core/result/usd.go":             {1, "a single number"},
	"internal/run/shell/shell.go":             {1, "a text and a number"},
	"internal/model/trajectory/lines.go":      {1, "one member or message at a time, as text, and messages are counted"},
	"internal/model/trajectory/own.go":        {2, "one step at a time, without lists"},
	"internal/model/trajectory/record.go":     {1, "a single text"},
	"internal/model/trajectory/transcript.go": {1, "one step at a time, as text"},
	"internal/run/trial/plan.go":              {1, "a variable of the job file"},
	"internal/run/trial/reward/json.go":       {1, "a single text"},
}

func TestDecodersAreBounded(t *testing.T) {
	found := map[string][]string{}
	eachFile(t, func(name string, fset *token.FileSet, f *ast.File) {
		if helpsTests(name) || name == boundedHome || strings.HasPrefix(name, "providers") {
			return
		}
		for _, call := range decodersIn(f) {
			at := fset.Position(call.Pos())
			file := name + "/" + filepath.Base(at.Filename)
			found[file] = append(found[file], fmt.Sprintf("%s: line %d", file, at.Line))
		}
	})
	for _, file := range slices.Sorted(maps.Keys(found)) {
		switch n, allowed := len(found[file]), unbounded[file].strings; {
		case n > allowed:
			t.Errorf("%s decodes text in %d places, %d are allowed: use %s, or say in internal/test/arch/decoders_test.go why little text cannot take much memory\n\t%s",
				file, n, allowed, boundedHome, strings.Join(found[file], "\n\t"))
		case n < allowed:
			t.Errorf("%s decodes text in %d places only: lower its number in internal/test/arch/decoders_test.go", file, n)
		}
	}
	for file, e := range unbounded {
		if len(found[file]) == 0 {
			t.Errorf("%s decodes nothing any more: remove it from internal/test/arch/decoders_test.go", file)
		}
		if e.why == "" {
			t.Errorf("%s: say why it does not need %s", file, boundedHome)
		}
	}
}

// decodersIn returns the uses of decoders in a file.
func decodersIn(f *ast.File) (uses []ast.Node) {
	names := map[string][]string{}
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := filepath.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if functions := decoders[imported]; functions != nil {
			names[name] = functions
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && slices.Contains(names[x.Name], s.Sel.Name) {
				uses = append(uses, s)
			}
		}
		return true
	})
	return uses
}
