// Package tokens asks servers for the ids of the tokens of their answers, reads them, and hides
// them from clients that did not ask. vLLM and SGLang state them in Chat Completions.
package tokens
