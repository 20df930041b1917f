package control

import _ "embed" // for the description

// MaxBody is the most bytes of a request's body.
const MaxBody = 1 << 20

// Bounds of how many runs are listed at once.
const (
	DefaultRuns = 50
	MaxRuns     = 1000
)

// ResourceList is the answer that lists resources, and RunList the one that lists
// runs.
type (
	ResourceList struct {
		Resources []Resource `json:"resources"`
	}
	RunList struct {
		Runs []Run `json:"runs"`
	}
)

// HaltRequest is the body of a request to halt.
type HaltRequest struct {
	// Reason says who wants it and why, for people.
	Reason string `json:"reason,omitempty"`
}

// The names of events in the stream of a run.
const (
	// EventRun has a RunEvent, and its N as id.
	EventRun = "run"
	// EventEnd is the last one of a run that is over.
	EventEnd = "end"
	// EventProblem has a Problem, and ends the stream of a run that may not be over.
	EventProblem = "problem"
)

// KeepAlive is after how many seconds without an event a stream has a comment.
const KeepAlive = 15

//go:embed openapi.yaml
var openAPI string

// OpenAPI returns the description of the API, OpenAPI 3.1 as YAML.
func OpenAPI() string { return openAPI }
