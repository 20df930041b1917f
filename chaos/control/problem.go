package control

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Problem is an error of the API, as RFC 9457 has it.
type Problem struct {
	// Type names the kind of problem: one of the constants below.
	Type ProblemType `json:"type"`
	// Title is the kind for people, Status the HTTP status.
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail says what was wrong and what would be right.
	Detail string `json:"detail,omitempty"`
	// Fields are the faults of a request's body, all at once.
	Fields []FieldError `json:"fields,omitempty"`
}

// FieldError is what is wrong with one field.
type FieldError struct {
	// Field is its path in the body, such as "settings.session_ttl".
	Field string `json:"field"`
	// Detail names the value, and what would be right.
	Detail string `json:"detail"`
}

// ProblemType names a kind of problem.
type ProblemType string

// The kinds of problems.
const (
	Invalid      ProblemType = "urn:revenant:invalid"      // 422: the body cannot be meant
	Malformed    ProblemType = "urn:revenant:malformed"    // 400: the request cannot be read
	Unauthorized ProblemType = "urn:revenant:unauthorized" // 401: no token, or a wrong one
	Forbidden    ProblemType = "urn:revenant:forbidden"    // 403: a foreign host or origin
	NotFound     ProblemType = "urn:revenant:not-found"    // 404
	NotAllowed   ProblemType = "urn:revenant:not-allowed"  // 405: not with this method; see Allow
	Conflict     ProblemType = "urn:revenant:conflict"     // 409: somebody else refers to it, or has it
	Stale        ProblemType = "urn:revenant:stale"        // 412: the generation is not the one that was seen
	TooLarge     ProblemType = "urn:revenant:too-large"    // 413
	Halted       ProblemType = "urn:revenant:halted"       // 423: new runs are refused until resume
	Unavailable  ProblemType = "urn:revenant:unavailable"  // 503: the daemon is about to end
	Internal     ProblemType = "urn:revenant:internal"     // 500
)

// statuses and titles of the kinds.
var problems = map[ProblemType]struct {
	status int
	title  string
}{
	Invalid:      {http.StatusUnprocessableEntity, "not valid"},
	Malformed:    {http.StatusBadRequest, "not readable"},
	Unauthorized: {http.StatusUnauthorized, "not authorized"},
	Forbidden:    {http.StatusForbidden, "forbidden"},
	NotFound:     {http.StatusNotFound, "not found"},
	NotAllowed:   {http.StatusMethodNotAllowed, "method not allowed"},
	Conflict:     {http.StatusConflict, "in conflict"},
	Stale:        {http.StatusPreconditionFailed, "changed meanwhile"},
	TooLarge:     {http.StatusRequestEntityTooLarge, "too large"},
	Halted:       {http.StatusLocked, "halted"},
	Unavailable:  {http.StatusServiceUnavailable, "not available"},
	Internal:     {http.StatusInternalServerError, "internal error"},
}

// NewProblem returns a Problem of a kind, with its title and status.
func NewProblem(of ProblemType, format string, args ...any) *Problem {
	p := problems[of]
	return &Problem{Type: of, Title: p.title, Status: p.status, Detail: fmt.Sprintf(format, args...)}
}

// Error is the detail, and the fields on lines of their own.
func (p *Problem) Error() string {
	lines := []string{p.Title}
	if p.Detail != "" {
		lines[0] += ": " + p.Detail
	}
	for _, f := range p.Fields {
		lines = append(lines, f.Field+": "+f.Detail)
	}
	return strings.Join(lines, "\n")
}

// Is reports whether err is, or wraps, a [*Problem] of this kind.
func Is(err error, of ProblemType) bool {
	var p *Problem
	return errors.As(err, &p) && p.Type == of
}
