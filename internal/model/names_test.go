package model

import (
	"testing"
)

func TestSameModel(t *testing.T) {
	for _, pair := range [][2]string{
		{"gpt-5", "gpt-5-2025-08-07"}, {"claude-sonnet-4-5", "claude-sonnet-4-5-20250929"}, {"claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022"},
		{"gemini-2.5-flash", "gemini-2.5-flash-preview-05-20"}, {"models/gemini-2.5-pro", "gemini-2.5-pro"}, {"gemini-1.5-pro", "gemini-1.5-pro-002"},
		{"us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5-20250929"}, {"anthropic/claude-sonnet-4.5", "claude-sonnet-4-5-20250929"},
		{"deepseek/deepseek-chat:free", "deepseek/deepseek-chat"}, {"claude-sonnet-4@20250514", "claude-sonnet-4"}, {"Qwen/Qwen3-8B", "qwen3-8b"}, {"gpt-4", "gpt-4-0613"},
		{"m", "m"}, {"gpt-4.1", "gpt-4.1-2025-04-14"},
	} {
		if !SameModel(pair[0], pair[1]) || !SameModel(pair[1], pair[0]) {
			t.Errorf("%s and %s are said to be two models: %s, %s", pair[0], pair[1], bareName(pair[0]), bareName(pair[1]))
		}
	}
	for _, pair := range [][2]string{
		{"gpt-5", "gpt-5-mini"}, {"gpt-5", "gpt-5.1"}, {"claude-opus-4-5", "claude-sonnet-4-5"}, {"gpt-4", "gpt-4o"}, {"gemini-2.5-pro", "gemini-2.5-flash"}, {"claude-opus-4", "claude-opus-4-5"},
		{"llama-3-8b", "llama-3-70b"}, {"cheap", "dear"}, {"gpt-4-turbo", "gpt-4-2024-01-01"},
	} {
		if SameModel(pair[0], pair[1]) {
			t.Errorf("%s and %s are said to be one model", pair[0], pair[1])
		}
	}
}
