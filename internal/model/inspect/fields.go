package inspect

import (
	"regexp"
	"strings"
)

// Keys are compared as plain returns them. Sources: the references of the APIs of OpenAI,
// Anthropic, Google, xAI, Mistral, OpenRouter, Alibaba and Groq, and the servers litellm, vLLM and
// SGLang.

func set(keys ...string) map[string]bool {
	out := map[string]bool{}
	for _, key := range keys {
		out[plain(key)] = true
	}
	return out
}

var (
	// otherModels are fields of a request that name other models, servers or accounts than the
	// configured ones.
	otherModels = set("models", "fallbacks", "fallback_models", "context_window_fallbacks", "content_policy_fallbacks", "default_fallbacks", "route", "preset",
		"model_list", "user_config", "lora_path", "extra_body", "extra_headers", "extra_query", "api_base", "base_url", "api_key", "custom_llm_provider",
		"moderation", "billing_policy", "fallback_credit_token", "model_selection_config")
	// otherConfigs are such fields of Google's generationConfig.
	otherConfigs = set("routing_config", "model_config")
	// webFields are fields of a request with which the provider searches the web, calls servers, or
	// runs programs.
	webFields = set("web_search_options", "plugins", "search_parameters", "enable_search", "search_options", "search_settings", "web_search", "enable_web_search",
		"force_search_enhancement", "connectors", "mcp_servers", "container")
	// talk are the fields with the conversation and with tools: a field named model in them is not
	// the request's.
	talk = set("messages", "input", "contents", "system", "instructions", "system_instruction", "tools", "tool_config")
	// opaque are fields whose values an agent or a model chooses freely: arguments of tools, and
	// their schemas. No provider reads anything else from them. At the top of a request they mean
	// something else.
	opaque = set("parameters", "input_schema", "output_schema", "input_examples", "arguments", "args", "schema", "json_schema", "parameters_json_schema",
		"response_json_schema", "response_schema", "input", "action", "operation", "response", "logit_bias")
	// labels are fields that are opaque everywhere.
	labels = set("metadata", "client_metadata", "litellm_metadata", "annotations", "citations", "tool_choice", "format", "guided_json", "structured_outputs")
	// media are fields with a picture, a file or similar content: as a text, or as an object whose
	// url is fetched.
	media = set("source", "image", "images", "video", "videos", "audio", "input_audio", "file", "files", "document", "media", "inline_data", "file_data")
	// prose are texts in media that are not fetched.
	prose = set("type", "text", "title", "context", "content", "filename", "name", "id", "format", "detail", "mime_type", "media_type", "display_name", "voice")
	// contents are lists in which a text may be a picture.
	contents = set("content", "parts", "output")
)

// fetched reports whether the provider fetches the URL in a field with this key.
func fetched(key string) bool {
	return len(key) > 3 && (strings.HasSuffix(key, "url") || strings.HasSuffix(key, "uri"))
}

var schemed = regexp.MustCompile(`^[\x00-\x20]*[A-Za-z][A-Za-z0-9+.-]+:`)

// isInline reports whether a text is a data: URL.
func isInline(text string) bool { return len(text) >= 5 && strings.EqualFold(text[:5], "data:") }

// isURL reports whether a text that is or names a picture or a file is a URL to fetch.
func isURL(text string) bool { return schemed.MatchString(text) && !isInline(text) }
