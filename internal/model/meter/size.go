package meter

import (
	"bytes"
	"sync"
)

// Size is the maximum usage of a turn.
type Size struct {
	Input, Output int64 // tokens
	USD           float64
	// Unknown: no turn of the model has ended yet, so it is not known whether its provider counts
	// more than the bytes of a request.
	Unknown bool

	bytes amount // estimate from the request alone
}

// DefaultOutput is the assumed maximum length of an answer, in tokens, if the request states no
// limit. No model had a higher limit when this was written (128k).
const DefaultOutput = 128 << 10

// Scale records by how much turns of a model exceeded their sizes: the provider adds to prompts,
// stores earlier parts of a conversation, fetches URLs, or counts reasoning separately. The zero
// Scale is ready to use. Its methods are safe for concurrent use.
type Scale struct {
	mu            sync.Mutex
	known         bool
	input, output int64
	usd           float64
}

// Size returns the size of a turn by its request: a token has at least a byte. limit is the
// request's limit of the output; 0: none. price returns the maximum cost of tokens; nil if it is
// not known.
func (s *Scale) Size(request []byte, limit int64, price func(input, output int64) *float64) *Size {
	if limit <= 0 {
		limit = DefaultOutput
	}
	text, media := measure(request)
	size := &Size{Input: text, Output: limit}
	for _, n := range media {
		size.Input += max(mediaTokens, n/8)
	}
	size.USD = Value(price(size.Input, size.Output))
	size.bytes = amount{1, size.Input, size.Output, size.USD}
	s.Adjust(size)
	return size
}

// Adjust updates a size with the turns that have ended since it was made. It must not be reserved.
func (s *Scale) Adjust(size *Size) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size.Input, size.Output, size.USD, size.Unknown = add(size.bytes.input, s.input), add(size.bytes.output, s.output), size.bytes.usd+s.usd, !s.known
}

// mediaTokens is an upper bound of the tokens of an image.
const mediaTokens = 8000

// Learn compares the usage of a turn with its size.
func (s *Scale) Learn(size *Size, u Usage, usd *float64) {
	if !u.Known() && usd == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = true
	s.input = max(s.input, Value(u.Input)-size.bytes.input)
	s.output = max(s.output, Value(u.Output)-size.bytes.output)
	s.usd = max(s.usd, Value(usd)-size.bytes.usd)
}

// bytesPerToken is the mean length of a token.
const bytesPerToken = 4

// InputTokens estimates the tokens of a request by its bytes. Media in it count little, so the
// estimate is rather too low.
func InputTokens(request []byte) int64 {
	text, media := measure(request)
	for _, n := range media {
		text += min(n, 1000)
	}
	return (text + bytesPerToken - 1) / bytesPerToken
}

// OutputTokens estimates the tokens of an answer by its bytes.
func OutputTokens(n int64) int64 { return (n + bytesPerToken - 1) / bytesPerToken }

// minMedia is the minimum length of a string that may be media, in bytes.
const minMedia = 2048

// measure returns the number of bytes of a request in JSON without media, and that of each string
// with media in base64.
func measure(request []byte) (text int64, media []int64) {
	text = int64(len(request))
	for {
		from := bytes.IndexByte(request, '"')
		if from < 0 {
			return text, media
		}
		request = request[from+1:]
		end := endOfString(request)
		if end >= minMedia && isBase64(request[:end]) {
			media, text = append(media, int64(end)), text-int64(end)
		}
		request = request[min(end+1, len(request)):]
	}
}

// endOfString returns the end of the JSON string at the beginning of text.
func endOfString(text []byte) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(text)
}

func isBase64(text []byte) bool {
	if bytes.HasPrefix(text, []byte("data:")) {
		_, text, _ = bytes.Cut(text, []byte(","))
	}
	for _, c := range text {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '+', c == '/', c == '=', c == '-', c == '_', c == '\\':
		default:
			return false
		}
	}
	return len(text) >= minMedia/2
}
