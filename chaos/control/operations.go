package control

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// Info returns what the daemon says of itself.
func (c *Client) Info(ctx context.Context) (Info, error) {
	var info Info
	_, err := c.do(ctx, request{method: http.MethodGet, path: "/v1/info"}, &info)
	return info, err
}

// List returns all resources of a kind.
func (c *Client) List(ctx context.Context, kind Kind) ([]Resource, error) {
	if err := checkKind(kind); err != nil {
		return nil, err
	}
	var list ResourceList
	_, err := c.do(ctx, request{method: http.MethodGet, path: "/v1/" + string(kind)}, &list)
	return list.Resources, err
}

// Get returns a resource.
func (c *Client) Get(ctx context.Context, kind Kind, name string) (Resource, error) {
	var r Resource
	path, err := resourcePath(kind, name)
	if err == nil {
		_, err = c.do(ctx, request{method: http.MethodGet, path: path}, &r)
	}
	return r, err
}

// Put creates a resource or changes its spec, as [Backend] says.
func (c *Client) Put(ctx context.Context, kind Kind, name string, seen int64, spec []byte) (r Resource, created bool, err error) {
	path, err := resourcePath(kind, name)
	if err != nil {
		return r, false, err
	}
	header := generation(seen)
	if seen == 0 {
		header = map[string]string{"If-None-Match": "*"}
	}
	if spec == nil {
		spec = []byte{}
	}
	resp, err := c.do(ctx, request{method: http.MethodPut, path: path, header: header, body: spec}, &r)
	return r, err == nil && resp.StatusCode == http.StatusCreated, err
}

// Delete stops and removes a resource, as [Backend] says.
func (c *Client) Delete(ctx context.Context, kind Kind, name string, seen int64) error {
	path, err := resourcePath(kind, name)
	if err == nil {
		_, err = c.do(ctx, request{method: http.MethodDelete, path: path, header: generation(seen)}, nil)
	}
	return err
}

// Start begins a run, or returns the one that was begun with the same key.
func (c *Client) Start(ctx context.Context, experiment, key string, req RunRequest) (Run, error) {
	path, err := resourcePath(Experiments, experiment)
	if err == nil && !ValidIdempotencyKey(key) {
		err = NewProblem(Malformed, "the idempotency key %.64q, want %s", key, IdempotencyKeyRule)
	}
	if err != nil {
		return Run{}, err
	}
	body, err := json.Marshal(req)
	if err != nil { // a number that JSON does not have
		return Run{}, NewProblem(Malformed, "the request of a run: %v", err)
	}
	var header map[string]string
	if key != "" {
		header = map[string]string{"Idempotency-Key": key}
	}
	var run Run
	_, err = c.do(ctx, request{method: http.MethodPost, path: path + "/runs", header: header, body: body}, &run)
	return run, err
}

// Runs returns the latest runs first, as [Backend] says. Limit 0 is the daemon's
// own.
func (c *Client) Runs(ctx context.Context, experiment string, limit int) ([]Run, error) {
	query := url.Values{}
	if experiment != "" {
		query.Set("experiment", experiment)
	}
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	path := "/v1/runs"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	var list RunList
	_, err := c.do(ctx, request{method: http.MethodGet, path: path}, &list)
	return list.Runs, err
}

// Run returns a run.
func (c *Client) Run(ctx context.Context, id string) (Run, error) {
	return c.run(ctx, http.MethodGet, id, "")
}

// Cancel ends a run, which rolls back.
func (c *Client) Cancel(ctx context.Context, id string) (Run, error) {
	return c.run(ctx, http.MethodPost, id, "/cancel")
}

func (c *Client) run(ctx context.Context, method, id, below string) (Run, error) {
	var run Run
	path, err := runPath(id)
	if err == nil {
		_, err = c.do(ctx, request{method: method, path: path + below}, &run)
	}
	return run, err
}

// Journal writes the journal of a run's n-th repeat, from 1, as JSON. After an
// error part of it may have been written.
func (c *Client) Journal(ctx context.Context, id string, n int, w io.Writer) error {
	path, err := runPath(id)
	if err != nil {
		return err
	}
	return c.copy(ctx, request{method: http.MethodGet, path: path + "/journals/" + strconv.Itoa(n)}, w)
}

// Report writes the page of a run's n-th repeat, from 1. After an error part of
// it may have been written.
func (c *Client) Report(ctx context.Context, id string, n int, w io.Writer) error {
	path, err := runPath(id)
	if err != nil {
		return err
	}
	return c.copy(ctx, request{method: http.MethodGet, path: path + "/journals/" + strconv.Itoa(n) + "/report", accept: typeHTML}, w)
}

// Halt undoes every fault and ends every run, and refuses new ones until Resume.
func (c *Client) Halt(ctx context.Context, reason string) (Info, error) {
	body, err := json.Marshal(HaltRequest{Reason: reason})
	if err != nil {
		return Info{}, fmt.Errorf("control: %w", err)
	}
	var info Info
	_, err = c.do(ctx, request{method: http.MethodPost, path: "/v1/halt", body: body}, &info)
	return info, err
}

// Resume allows runs again.
func (c *Client) Resume(ctx context.Context) (Info, error) {
	var info Info
	_, err := c.do(ctx, request{method: http.MethodPost, path: "/v1/resume"}, &info)
	return info, err
}

// generation is the header for the generation that was seen, from 1.
func generation(seen int64) map[string]string {
	if seen < 1 {
		return nil
	}
	return map[string]string{"If-Match": `"` + strconv.FormatInt(seen, 10) + `"`}
}

func checkKind(kind Kind) error {
	if !slices.Contains(Kinds(), kind) {
		return NewProblem(NotFound, "kind %.64q, want one of %q", kind, Kinds())
	}
	return nil
}

// resourcePath is the path of a resource. What could not be a name must not
// become part of a path.
func resourcePath(kind Kind, name string) (string, error) {
	if err := checkKind(kind); err != nil {
		return "", err
	}
	if !ValidName(name) {
		return "", NewProblem(Malformed, "name %.80q, want %s", name, NameRule)
	}
	return "/v1/" + string(kind) + "/" + name, nil
}

func runPath(id string) (string, error) {
	if !ValidID(id) {
		return "", NewProblem(Malformed, "run %.80q, want %s", id, IDRule)
	}
	return "/v1/runs/" + id, nil
}
