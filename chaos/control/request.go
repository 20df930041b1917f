package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
)

// Bounds of what a Client reads of an answer.
const (
	// MaxAnswer is for everything that is parsed, in bytes, and MaxProblem for an
	// error.
	MaxAnswer  = 64 << 20
	MaxProblem = 1 << 20
	// MaxJournal is for a journal and for its page.
	MaxJournal = 256 << 20
)

// The media types of the API.
const (
	typeJSON    = "application/json"
	typeProblem = "application/problem+json"
	typeEvents  = "text/event-stream"
	typeHTML    = "text/html"
)

// request is one request. Its path is escaped.
type request struct {
	method, path string
	header       map[string]string
	body         []byte // nil for none
	accept       string // "" for JSON
}

// send returns the answer to a request if it is a good one. Its body is the
// caller's to close.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, bytes.NewReader(r.body))
	if err != nil {
		return nil, c.fail(r, err)
	}
	if r.accept == "" {
		r.accept = typeJSON
	}
	// The second is so that a problem is not made a page.
	req.Header.Set("Accept", r.accept+", "+typeProblem)
	req.Header.Set("User-Agent", c.agent)
	if r.body != nil {
		req.Header.Set("Content-Type", typeJSON)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		// Its text has the method and the address once more.
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, c.fail(r, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		return nil, c.problem(r, resp)
	}
	if got := mediaType(resp); got != r.accept && resp.StatusCode != http.StatusNoContent {
		resp.Body.Close()
		return nil, c.fail(r, fmt.Errorf("the answer is %.64q, want %s: is that a daemon of this program?", got, r.accept))
	}
	return resp, nil
}

// fail says in an error what was asked, and of whom.
func (c *Client) fail(r request, err error) error {
	return fmt.Errorf("control: %s %s at %s: %w", r.method, r.path, c.where, err)
}

// problem returns the error in an answer.
func (c *Client) problem(r request, resp *http.Response) error {
	if mediaType(resp) == typeProblem {
		p := &Problem{}
		data, err := readAll(resp.Body, MaxProblem)
		if err == nil {
			err = json.Unmarshal(data, p)
		}
		if err == nil && p.Type != "" {
			p.Status = resp.StatusCode
			return p
		}
	}
	return c.fail(r, fmt.Errorf("the answer is %d %s and says no more: is that a daemon of this program?", resp.StatusCode, http.StatusText(resp.StatusCode)))
}

// do sends a request and reads the JSON of the answer into out, nil for none.
func (c *Client) do(ctx context.Context, r request, out any) (*http.Response, error) {
	resp, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if out == nil {
		return resp, nil
	}
	data, err := readAll(resp.Body, MaxAnswer)
	if err == nil {
		err = json.Unmarshal(data, out)
	}
	if err != nil {
		return nil, c.fail(r, fmt.Errorf("the answer: %w", err))
	}
	return resp, nil
}

// copy sends a request and writes the body of the answer to w.
func (c *Client) copy(ctx context.Context, r request, w io.Writer) error {
	resp, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	n, err := io.Copy(w, io.LimitReader(resp.Body, MaxJournal+1))
	if err == nil && n > MaxJournal {
		err = errTooLong(MaxJournal)
	}
	if err != nil {
		return c.fail(r, err)
	}
	return nil
}

// readAll reads all of r, which has at most so many bytes.
func readAll(r io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		err = errTooLong(most)
	}
	return data, err
}

func errTooLong(most int64) error { return fmt.Errorf("longer than %d bytes", most) }

// mediaType is that of an answer, without parameters.
func mediaType(resp *http.Response) string {
	t, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}
