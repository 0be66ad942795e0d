// Package prices holds the prices of models' tokens. Its table is that of pydantic/genai-prices of
// 2026-08-21 (MIT License, see LICENSE), without fields that are not used.
package prices
