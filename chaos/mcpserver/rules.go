package mcpserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Rule makes the server misbehave at certain requests: On, RPC, Count, From and
// To say at which, the rest says how. Delay and one of Status, Hang and
// ReapAfterReplay go together; with Delay alone, the request is served late.
//
// Every rule counts the requests that it is about, from 1, whether or not another
// rule was applied to them. Of the rules that want a request, the first is
// applied. The oracle says which: [Request.Rule] is the rule's number, from 1,
// in the order in which [Config.Rules] and [Server.Inject] have given them.
//
// A rule is a value. Its JSON has the field names in snake case and durations as
// text, as in {"on": "post", "rpc": "ping", "delay": "30s", "status": 404}; what
// it does not know it refuses. YAML is the same.
type Rule struct {
	// On says which kind of request. The zero value is [OnAny].
	On On
	// RPC is the method of the JSON-RPC message that a POST must have, as in
	// "ping", or "response" for a client's answer. "": any. Only with [OnPOST].
	RPC string
	// Count says which requests are counted together. The zero value is
	// [CountSession].
	Count Count
	// From and To are the first and the last request that the rule wants. From 0
	// is 1, To 0 is without end.
	From, To int

	// Delay is how long the request waits before anything else is done about it,
	// its session's check included. The oracle has it as arrived by then.
	Delay time.Duration
	// Status, from 200 to 599, answers the request. 0: it is served.
	Status int
	// RetryAfter is the answer's Retry-After, in whole seconds. 0: none.
	RetryAfter time.Duration
	// ContentType and Body are the answer's. A Body without a ContentType is
	// text/plain.
	ContentType string
	Body        string
	// Hang gives no answer for as long as the client waits, or the server runs.
	Hang bool
	// ReapAfterReplay reaps the session of a GET, as [Server.Reap] does, when the
	// replay has been written and flushed, and before anything else is; for a GET
	// without a replay, when the stream begins. What goes on with the stream is
	// a dead session's.
	ReapAfterReplay bool
}

// On is a kind of HTTP request.
type On uint8

const (
	// OnAny: each request.
	OnAny On = iota
	// OnGET: each GET.
	OnGET
	// OnFirstGET: a GET of a session that has had no stream by GET before, and
	// without a cursor.
	OnFirstGET
	// OnResume: any other GET, that is, a reconnect.
	OnResume
	// OnPOST: each POST, initialize included.
	OnPOST
	// OnDELETE: each DELETE.
	OnDELETE
)

var ons = knob[On]{"On", "on", []string{
	OnAny: "any", OnGET: "get", OnFirstGET: "get_first", OnResume: "get_resume", OnPOST: "post", OnDELETE: "delete",
}}

// ParseOn is the inverse of [On.String].
func ParseOn(text string) (On, error) { return ons.parse(text) }

// String is "any", "get", "get_first", "get_resume", "post" or "delete".
func (o On) String() string { return ons.text(o) }

// MarshalText writes what [ParseOn] reads. It fails for a value that is none of
// the constants.
func (o On) MarshalText() ([]byte, error) { return ons.marshal(o) }

// UnmarshalText is [ParseOn].
func (o *On) UnmarshalText(text []byte) error { return ons.unmarshal(o, text) }

// wants is whether a request of a method is of the kind. resume is whether it
// would be a reconnect.
func (o On) wants(method string, resume bool) bool {
	switch o {
	case OnGET:
		return method == http.MethodGet
	case OnFirstGET:
		return method == http.MethodGet && !resume
	case OnResume:
		return method == http.MethodGet && resume
	case OnPOST:
		return method == http.MethodPost
	case OnDELETE:
		return method == http.MethodDelete
	}
	return true
}

// Count says which of the requests that a rule is about are counted together.
type Count uint8

const (
	// CountSession: those that carry the same session id. Those without one count
	// as one session.
	CountSession Count = iota
	// CountServer: all of the server, or of the cluster.
	CountServer
)

var counts = knob[Count]{"Count", "count", []string{CountSession: "session", CountServer: "server"}}

// ParseCount is the inverse of [Count.String].
func ParseCount(text string) (Count, error) { return counts.parse(text) }

// String is "session" or "server".
func (c Count) String() string { return counts.text(c) }

// MarshalText writes what [ParseCount] reads. It fails for a value that is none
// of the constants.
func (c Count) MarshalText() ([]byte, error) { return counts.marshal(c) }

// UnmarshalText is [ParseCount].
func (c *Count) UnmarshalText(text []byte) error { return counts.unmarshal(c, text) }

// Validate reports every fault of the rule at once.
func (r Rule) Validate() error {
	var faults []error
	for _, f := range r.faults() {
		faults = append(faults, fmt.Errorf("mcpserver: rule: %s", f))
	}
	return errors.Join(faults...)
}

// faults are texts of the form "field is value: want what would be right".
func (r Rule) faults() (faults []string) {
	fault := func(wrong bool, field string, value any, want string) {
		if wrong {
			faults = append(faults, fmt.Sprintf("%s is %v: want %s", field, value, want))
		}
	}
	fault(!ons.has(r.On), "on", r.On, oneOf(ons.texts))
	fault(!counts.has(r.Count), "count", r.Count, oneOf(counts.texts))
	fault(r.RPC != "" && r.On != OnPOST, "rpc", strconv.Quote(r.RPC), "none, or on: post")
	fault(r.From < 0, "from", r.From, "0 (the first) or more")
	fault(r.To < 0 || r.To > 0 && r.To < r.From, "to", r.To, fmt.Sprintf("0 (without end), or %d or more", max(r.From, 1)))
	fault(r.Delay < 0, "delay", r.Delay, "0 or more")
	fault(r.Status != 0 && (r.Status < 200 || r.Status > 599), "status", r.Status, "0 (the request is served), or 200 to 599")
	fault(r.RetryAfter < 0 || r.RetryAfter%time.Second != 0, "retry_after", r.RetryAfter, "0 (none) or whole seconds")
	const noAnswer = "none, or a status to go with it"
	fault(r.RetryAfter > 0 && r.Status == 0, "retry_after", r.RetryAfter, noAnswer)
	fault(r.ContentType != "" && r.Status == 0, "content_type", strconv.Quote(r.ContentType), noAnswer)
	fault(strings.ContainsAny(r.ContentType, "\r\n\x00"), "content_type", strconv.Quote(r.ContentType), "one line")
	fault(r.Body != "" && r.Status == 0, "body", strconv.Quote(r.Body), noAnswer)
	noBody := r.Status == http.StatusNoContent || r.Status == http.StatusNotModified
	fault(r.Body != "" && noBody, "body", strconv.Quote(r.Body), fmt.Sprintf("none with status %d", r.Status))
	fault(r.Hang && r.Status != 0, "hang", r.Hang, "false with a status")
	fault(r.ReapAfterReplay && (r.Status != 0 || r.Hang), "reap_after_replay", true, "false with a status or hang: there is no replay")
	ofGET := r.On == OnGET || r.On == OnFirstGET || r.On == OnResume
	fault(r.ReapAfterReplay && !ofGET, "reap_after_replay", true, "false, or on: "+oneOf([]string{"get", "get_first", "get_resume"}))
	nothing := r.Delay == 0 && r.Status == 0 && !r.Hang && !r.ReapAfterReplay
	fault(nothing, "rule", "without an effect", "a delay, a status, hang or reap_after_replay")
	return faults
}

// faultsOf names the faults of several rules, with the rule's place.
func faultsOf(rules []Rule) error {
	var faults []error
	for i, r := range rules {
		for _, f := range r.faults() {
			faults = append(faults, fmt.Errorf("mcpserver: Rules[%d]: %s", i, f))
		}
	}
	return errors.Join(faults...)
}

// ruleJSON is a Rule on the wire.
type ruleJSON struct {
	On              On           `json:"on,omitzero"`
	RPC             string       `json:"rpc,omitzero"`
	Count           Count        `json:"count,omitzero"`
	From            int          `json:"from,omitzero"`
	To              int          `json:"to,omitzero"`
	Delay           durationJSON `json:"delay,omitzero"`
	Status          int          `json:"status,omitzero"`
	RetryAfter      durationJSON `json:"retry_after,omitzero"`
	ContentType     string       `json:"content_type,omitzero"`
	Body            string       `json:"body,omitzero"`
	Hang            bool         `json:"hang,omitzero"`
	ReapAfterReplay bool         `json:"reap_after_replay,omitzero"`
}

// durationJSON is a duration as text.
type durationJSON time.Duration

func (d durationJSON) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *durationJSON) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("mcpserver: duration is %q: want a number with a unit, as in 30s or 1m30s", text)
	}
	*d = durationJSON(v)
	return nil
}

// MarshalJSON writes the fields that are not zero.
func (r Rule) MarshalJSON() ([]byte, error) {
	return json.Marshal(ruleJSON{
		On: r.On, RPC: r.RPC, Count: r.Count, From: r.From, To: r.To, Delay: durationJSON(r.Delay),
		Status: r.Status, RetryAfter: durationJSON(r.RetryAfter), ContentType: r.ContentType, Body: r.Body,
		Hang: r.Hang, ReapAfterReplay: r.ReapAfterReplay,
	})
}

// UnmarshalJSON reads a rule that is valid. It refuses fields that it does not
// know. What is not in the JSON is zero.
func (r *Rule) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var in ruleJSON
	if err := d.Decode(&in); err != nil {
		return fmt.Errorf("mcpserver: rule: %s", strings.TrimPrefix(err.Error(), "mcpserver: "))
	}
	rule := Rule{
		On: in.On, RPC: in.RPC, Count: in.Count, From: in.From, To: in.To, Delay: time.Duration(in.Delay),
		Status: in.Status, RetryAfter: time.Duration(in.RetryAfter), ContentType: in.ContentType, Body: in.Body,
		Hang: in.Hang, ReapAfterReplay: in.ReapAfterReplay,
	}
	if err := rule.Validate(); err != nil {
		return err
	}
	*r = rule
	return nil
}

// MarshalYAML is what the YAML libraries look for. It writes what MarshalJSON
// does.
func (r Rule) MarshalYAML() (any, error) {
	text, err := r.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&fields); err != nil {
		return nil, err
	}
	for name, v := range fields {
		if n, ok := v.(json.Number); ok {
			fields[name], _ = n.Int64() // All numbers of a rule are whole.
		}
	}
	return fields, nil
}

// UnmarshalYAML is what the YAML libraries look for. It reads what UnmarshalJSON
// does, and is as strict.
func (r *Rule) UnmarshalYAML(decode func(any) error) error {
	var fields map[string]any
	if err := decode(&fields); err != nil {
		return err
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("mcpserver: rule: %w", err)
	}
	return r.UnmarshalJSON(text)
}
