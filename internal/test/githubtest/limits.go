package githubtest

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// hourly is a workflow's quota. Source: docs.github.com, "Primary rate limit for GITHUB_TOKEN in
// GitHub Actions".
const hourly = 1000

// rate is the primary limit.
type rate struct {
	remaining int
	reset     time.Time
}

// secondary is a refusal of a later request.
type secondary struct {
	status     int
	retryAfter time.Duration
}

// SetRate allows the given number of requests until reset, when the quota is full again.
func (s *Server) SetRate(remaining int, reset time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rate = &rate{remaining, reset}
}

// LimitSecondary refuses the next count requests as too many in a short time, with status 403 or
// 429. retryAfter, in whole seconds, goes into the response; 0 leaves it out.
func (s *Server) LimitSecondary(count, status int, retryAfter time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range count {
		s.secondary = append(s.secondary, secondary{status, retryAfter})
	}
}

// limit counts the request, writes the headers, and reports whether the request is refused.
func (s *Server) limit(w http.ResponseWriter, q *request) (reply, bool) {
	if len(s.secondary) > 0 {
		refusal := s.secondary[0]
		s.secondary = s.secondary[1:]
		out := problem(refusal.status, "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.")
		out.value.(map[string]any)["documentation_url"] =
			"https://docs.github.com/free-pro-team@latest/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"
		if refusal.retryAfter > 0 {
			out.header = http.Header{"Retry-After": {strconv.Itoa(int(refusal.retryAfter / time.Second))}}
		}
		return out, true
	}
	now := s.now()
	if s.rate == nil || !now.Before(s.rate.reset) {
		s.rate = &rate{hourly, now.Add(time.Hour)}
	}
	refused := s.rate.remaining <= 0
	if !refused {
		s.rate.remaining--
	}
	h := w.Header()
	h.Set("X-RateLimit-Limit", strconv.Itoa(hourly))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(s.rate.remaining))
	h.Set("X-RateLimit-Used", strconv.Itoa(hourly-s.rate.remaining))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(s.rate.reset.Unix(), 10))
	h.Set("X-RateLimit-Resource", "core")
	if refused {
		return problem(http.StatusForbidden, fmt.Sprintf("API rate limit exceeded for %s.", q.access.Login)), true
	}
	return reply{}, false
}
