package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

var rules = Rules{
	Client: func(t Tool) bool {
		return t.Type == "" || t.Type == "function" || t.Type == "namespace" || t.Type == "shell" && (t.Environment == "" || t.Environment == "local") || t.Type == "tool_search" && t.Execution == "client"
	},
	Text: func(text string) []byte { return []byte(`{"type":"text","text":"` + text + `"}`) },
}

var googleRules = Rules{Declared: []string{"functiondeclarations"}, Text: func(text string) []byte { return []byte(`{"text":"` + text + `"}`) }}

func TestOneKeyTwiceIsRefused(t *testing.T) {
	for _, body := range []string{
		`{"model":"cheap","messages":[],"model":"dear"}`, `{"model":"cheap","mod\u0065l":"dear"}`, `{"model":"cheap","Model":"dear"}`, `{"tools":[],"tools":[{"type":"web_search"}]}`,
		`{"temperature":0,"temperature":1}`, `{"tools":[{"type":"function","type":"web_search"}]}`, `{"tools":[{"type":"namespace","tools":[{"type":"function","TYPE":"mcp"}]}]}`,
		`{"messages":[{"content":[{"source":{"type":"base64","type":"url","url":"https://x"}}]}]}`, `{"generationConfig":{"topK":1},"generation_config":{"topK":2}}`,
		`{"stream_options":{"include_usage":true,"include_usage":false}}`, `{"input":[{"content":[{"a":1,"a":2}]}]}`, "{\"tool\u017f\":1,\"tools\":2}",
	} {
		refusal := (*Refusal)(nil)
		if err := Unique([]byte(body)); !errors.As(err, &refusal) {
			t.Errorf("%s: %v", body, err)
		}
		if _, _, err := Request([]byte(body), rules, false); !errors.As(err, &refusal) || !strings.Contains(err.Error(), "twice") {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// Values that agents and models choose freely may have any keys.
func TestRequestsStayAsTheyAre(t *testing.T) {
	for _, body := range []string{
		`{}`, ` { "model" : "m" , "messages" : [ { "role" : "user" , "content" : "https://example.com" } ] } `,
		`{"messages":[{"content":[{"type":"tool_use","input":{"a":1,"a":2,"image_url":"https://x","tools":{"x":1}}}]}]}`,
		`{"tools":[{"type":"function","parameters":{"properties":{"model":{"type":"string"},"url":{"type":"string"},"tools":{}},"a":1,"a":2}}],"metadata":{"model":"x","url":"https://x"}}`,
		`{"input":[{"type":"message","content":[{"type":"output_text","text":"see","annotations":[{"type":"url_citation","url":"https://x"}]}]},{"type":"web_search_call","action":{"type":"open_page","url":"https://x"}}]}`,
		`{"input":[{"type":"shell_call_output","output":[{"stdout":"https://x: y","stderr":""}]},{"type":"function_call_output","output":"https://x"}]}`,
		`{"messages":[{"content":[{"type":"search_result","source":"https://x","title":"t","content":[{"type":"text","text":"https://x"}]},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"https://x is a site"}}]}]}`,
		`{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,//8=","detail":"high"}},{"type":"image_url","image_url":"DATA:image/png;base64,AA"},{"type":"input_audio","input_audio":{"data":"//uQxAAA","format":"mp3"}},{"type":"file","file":{"filename":"a: b","file_data":"data:application/pdf;base64,AA"}}]}]}`,
		`{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":"AA"}},{"functionResponse":{"name":"f","response":{"url":"https://x","url":"https://y"}}}]}]}`,
		`{"messages":[{"content":[{"type":"web_search_tool_result","content":[{"type":"web_search_result","url":"https://x"}]}]}],"tool_choice":{"type":"function","function":{"name":"f"}}}`,
		`{"tools":[{"type":"tool_search","execution":"client","description":"d","parameters":{}},{"type":"shell","environment":{"type":"local"}},{"type":"shell"}],"audio":{"voice":"alloy","format":"wav"},"image":{"context_compression":"auto"}}`,
		`{"response_format":{"type":"json_schema","json_schema":{"schema":{"properties":{"model":{},"models":{}}}}},"text":{"format":{"schema":{"model":1,"model":2}}},"guided_json":{"properties":{"model":{}}}}`,
		`{"input":"https://example.com","instructions":"https://example.com"}`, `{"tools":null}`,
	} {
		for _, one := range []Rules{rules, googleRules} {
			if strings.Contains(body, `"tools":[`) && one.Declared != nil {
				continue
			}
			out, found, err := Request([]byte(body), one, true)
			if err != nil || string(out) != body || len(found.Web)+len(found.Models) > 0 {
				t.Errorf("%s:\n%s, %v, %v", body, out, found, err)
			}
		}
		if err := Unique([]byte(body)); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestFieldsThatNameOtherModelsAreRemoved(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"m","models":["a","b"],"messages":[]}`: `{"model":"m","messages":[]} [models]`,
		`{"models":["a"]}`: `{} [models]`,
		`{"Fallbacks":[{"model":"dear"}],"route":"fallback","model":"m"}`:                                                                          `{"model":"m"} [Fallbacks route]`,
		`{"model":"m","fallbacks":"default"}`:                                                                                                      `{"model":"m"} [fallbacks]`,
		`{"model":"m","extra_body":{"tools":[]},"api_base":"https://x","x":1,"moderation":{"a":1}}`:                                                `{"model":"m","x":1} [extra_body api_base moderation]`,
		`{"model":"m","critic":{"deep":[{"model":"dear"}]},"x":1}`:                                                                                 `{"model":"m","x":1} [critic]`,
		`{"tools":[{"type":"advisor_20260301","model":"dear"},{"type":"function","name":"f"}]}`:                                                    `{"tools":[{"type":"function","name":"f"}]} [advisor_20260301]`,
		`{"tools":[{"type":"image_generation","svg":{"model":"dear"}}],"x":1}`:                                                                     `{"x":1} [image_generation]`,
		`{"generationConfig":{"topK":1,"routingConfig":{"manualMode":{"modelName":"dear"}}}}`:                                                      `{"generationConfig":{"topK":1}} [routingConfig]`,
		`{"messages":[{"content":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"type":"advisor_1","model":"dear"}}}]}]}`: `{"messages":[{"content":[{"type":"text","text":"[The gateway to the model has removed: advisor_1]"}]}]} [advisor_1]`,
	} {
		for _, restricted := range []bool{false, true} {
			out, found, err := Request([]byte(body), rules, restricted)
			if got := fmt.Sprintf("%s %v", out, found.Models); got != want || err != nil {
				t.Errorf("%s:\n%s, want\n%s (%v)", body, got, want, err)
			}
		}
	}
	if _, _, err := Request([]byte(`{"prompt":{"id":"pmpt_1"},"input":"x"}`), rules, false); err == nil || !strings.Contains(err.Error(), "prompt") {
		t.Errorf("%v", err)
	}
}

func TestWaysToTheWebAreRemoved(t *testing.T) {
	const gone = `{"type":"text","text":"[The gateway to the model has removed: %s]"}`
	text := func(what string) string { return fmt.Sprintf(gone, what) }
	for body, want := range map[string]string{
		// Tools.
		`{"tools":[{"type":"web_search"},{"type":"function","name":"f"},{"type":"mcp","server_url":"https://x"},{"name":"g"}]}`:                                                                                                                     `{"tools":[{"type":"function","name":"f"},{"name":"g"}]} [web_search mcp]`,
		`{"tools":[{"type":"shell","environment":{"type":"container_auto"}},{"type":"shell","environment":"container"},{"type":"shell"}]}`:                                                                                                          `{"tools":[{"type":"shell"}]} [shell]`,
		`{"tools":[{"type":"shell","Environment":{"TYPE":"container_auto"}}],"x":1}`:                                                                                                                                                                `{"x":1} [shell]`,
		`{"tools":[{"type":"tool_search"},{"type":"tool_search","execution":"server"},{"type":"tool_search","execution":"client"}]}`:                                                                                                                `{"tools":[{"type":"tool_search","execution":"client"}]} [tool_search]`,
		`{"tools":[{"type":"namespace","name":"n","tools":[{"type":"function"},{"type":"web_search"}]},{"type":"namespace","tools":[{"type":"mcp"}]}]}`:                                                                                             `{"tools":[{"type":"namespace","name":"n","tools":[{"type":"function"}]}]} [web_search mcp]`,
		`{"input":[{"type":"tool_search_output","tools":[{"type":"mcp"},{"type":"function"}]},{"type":"additional_tools","tools":[{"type":"web_search"}]}]}`:                                                                                        `{"input":[{"type":"tool_search_output","tools":[{"type":"function"}]},{"type":"additional_tools","tools":[]}]} [mcp web_search]`,
		`{"tools":[{"Type":"web_search"},"web_search",{"type":["web_search"]}],"x":1}`:                                                                                                                                                              `{"x":1} [web_search ?]`,
		`{"messages":[{"content":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"type":"web_fetch_1"}}},{"type":"compaction","tool_changes":[{"type":"tool_addition","tool":{"definition":{"type":"web_search_1"}}}]}]}]}`: `{"messages":[{"content":[` + text("web_fetch_1") + `,{"type":"compaction","tool_changes":[]}]}]} [web_fetch_1 web_search_1]`,
		// Fields.
		`{"mcp_servers":[{"type":"url","url":"https://x"}],"Web_Search_Options":{},"search_parameters":{"mode":"on"},"plugins":[{"id":"web"}],"enable_search":true,"x":1}`: `{"x":1} [url Web_Search_Options search_parameters plugins enable_search]`,
		// Files.
		`{"messages":[{"content":[{"type":"image","source":{"type":"url","url":"https://x"}},{"type":"text","text":"t"}]}]}`:                                                             `{"messages":[{"content":[` + text("image by URL") + `,{"type":"text","text":"t"}]}]} [image by URL]`,
		`{"messages":[{"content":[{"type":"tool_result","content":[{"type":"document","source":{"type":"content","content":[{"type":"image","source":{"url":"https://x"}}]}}]}]}]}`:      `{"messages":[{"content":[{"type":"tool_result","content":[{"type":"document","source":{"type":"content","content":[` + text("image by URL") + `]}}]}]}]} [image by URL]`,
		`{"messages":[{"content":[{"type":"image_url","image_url":{"url":"https://x"}}]}]}`:                                                                                              `{"messages":[{"content":[` + text("image_url by URL") + `]}]} [image_url by URL]`,
		`{"messages":[{"content":[{"image_url":"//x"},{"type":"video","video":["https://x"]},{"type":"input_audio","input_audio":{"data":"https:\/\/x"}}]}]}`:                            `{"messages":[{"content":[` + text("image_url by URL") + `,` + text("video by URL") + `,` + text("input_audio by URL") + `]}]} [image_url by URL video by URL input_audio by URL]`,
		`{"messages":[{"content":[{"type":"file","file":{"file_data":" https://x"}},{"type":"document_url","document_url":"https://x"}]}]}`:                                              `{"messages":[{"content":[` + text("file by URL") + `,` + text("document_url by URL") + `]}]} [file by URL document_url by URL]`,
		`{"input":[{"role":"user","content":[{"type":"input_file","file_url":"https://x"}]},{"type":"function_call_output","output":[{"type":"input_image","image_url":"https://x"}]}]}`: `{"input":[{"role":"user","content":[` + text("input_file by URL") + `]},{"type":"function_call_output","output":[` + text("input_image by URL") + `]}]} [input_file by URL input_image by URL]`,
	} {
		out, found, err := Request([]byte(body), rules, true)
		if got := fmt.Sprintf("%s %v", out, found.Web); got != want || err != nil || !gjson.ValidBytes(out) {
			t.Errorf("%s:\n%s, want\n%s (%v)", body, got, want, err)
		}
		if out, found, err := Request([]byte(body), rules, false); err != nil || string(out) != body || len(found.Web) > 0 {
			t.Errorf("in a public network: %s, %v, %v", out, found, err)
		}
	}
	for body, want := range map[string]string{
		`{"tools":[{"googleSearch":{}},{"functionDeclarations":[{"name":"f"}],"urlContext":{}}]}`:                                    `{"tools":[{"functionDeclarations":[{"name":"f"}]}]} [googleSearch urlContext]`,
		`{"tools":[{"google_search":{},"mcp_servers":[{"url":"https://x"}]}],"x":1}`:                                                 `{"x":1} [google_search mcp_servers]`,
		`{"contents":[{"parts":[{"fileData":{"fileUri":"https://x","mimeType":"video/mp4"}},{"file_data":{"file_uri":"gs://x"}}]}]}`: `{"contents":[{"parts":[{"text":"[The gateway to the model has removed: fileData by URL]"},{"text":"[The gateway to the model has removed: file_data by URL]"}]}]} [fileData by URL file_data by URL]`,
	} {
		out, found, err := Request([]byte(body), googleRules, true)
		if got := fmt.Sprintf("%s %v", out, found.Web); got != want || err != nil || !gjson.ValidBytes(out) {
			t.Errorf("%s:\n%s, want\n%s (%v)", body, got, want, err)
		}
	}
}

func TestWhatCannotBeRemovedIsRefused(t *testing.T) {
	for _, body := range []string{
		`{"input":[{"type":"computer_call_output","output":{"type":"computer_screenshot","image_url":"https://x"}}]}`, `{"tools":{"googleSearch":{}}}`,
		`{"messages":[{"content":{"type":"image","source":{"type":"url","url":"https://x"}}}]}`, `{"input":[{"type":"input_image","image_url":"https://x"}]}`,
		`{"x":` + strings.Repeat("[", 80) + strings.Repeat("]", 80) + `}`,
	} {
		refusal := (*Refusal)(nil)
		if out, _, err := Request([]byte(body), rules, true); !errors.As(err, &refusal) {
			t.Errorf("%s: %s, %v", body, out, err)
		}
	}
}

// A body that is nested deeply must not end the process.
func TestDeepJSONIsNotValid(t *testing.T) {
	for _, text := range []string{strings.Repeat("[", 50<<20), strings.Repeat(`{"a":`, 10<<20), strings.Repeat("[", 1001) + strings.Repeat("]", 1001), `{"a":"`, `{"a":"\"}`, "", `"`} {
		if Valid([]byte(text)) {
			t.Errorf("%.20q is valid", text)
		}
	}
	for _, text := range []string{strings.Repeat("[", 1000) + strings.Repeat("]", 1000), `{"a":"[[\"[\\"}`, `"[["`, `1`} {
		if !Valid([]byte(text)) {
			t.Errorf("%.20q is not valid", text)
		}
	}
}

// FuzzRequest checks that JSON stays valid, and that a second pass finds nothing.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{`{"tools":[{"type":"web_search"},{"type":"function"}],"input":[{"content":[{"image_url":"https://x"}]}],"models":[]}`, `{"a":[{},[1,2,{"tools":[1]}]]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if !Valid(body) || !gjson.ParseBytes(body).IsObject() {
			return
		}
		before := bytes.Clone(body)
		for _, r := range []Rules{rules, googleRules} {
			out, _, err := Request(body, r, true)
			if !bytes.Equal(before, body) {
				t.Fatal("the body was changed")
			}
			if err != nil {
				continue
			}
			again, found, err := Request(out, r, true)
			if !gjson.ValidBytes(out) || err != nil || !bytes.Equal(again, out) || len(found.Web)+len(found.Models) > 0 {
				t.Errorf("%s became %s, then %s, %v, %v", body, out, again, found, err)
			}
		}
	})
}

// The memory that a request takes for edits is bounded, whatever its length.
func TestRequestsThatWouldFillTheMemoryAreRefused(t *testing.T) {
	tool, url := `0,`, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://a"}}]},`
	for name, body := range map[string]string{
		"tools": `{"tools":[` + strings.Repeat(tool, 20_000) + `0]}`,
		"URLs":  `{"messages":[` + strings.Repeat(url, 110_000) + `{"role":"user"}]}`,
	} {
		for _, restricted := range []bool{true, false} {
			_, found, err := Request([]byte(body), rules, restricted)
			refused := (*Refusal)(nil)
			if want := restricted || name == "tools"; errors.As(err, &refused) != want || len(found.Web) > 50 {
				t.Errorf("%s, restricted %v: %v, %d names", name, restricted, err, len(found.Web))
			}
		}
	}
}
