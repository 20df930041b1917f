package control_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// streams answers requests for events, one after another: each with what it says,
// and then with an end, or with silence. After the last it refuses.
type streams struct {
	t       *testing.T
	answers []streamAnswer
	// asked is the Last-Event-ID of each request, and when it came.
	asked []string
	when  []time.Duration
	began time.Time
}

type streamAnswer struct {
	text   string
	silent bool
	status int // 0 for 200; of a problem otherwise
}

func (s *streams) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked = append(s.asked, r.Header.Get("Last-Event-ID"))
	s.when = append(s.when, time.Since(s.began))
	if len(s.answers) == 0 {
		return nil, errors.New("connection refused")
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	resp := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: r}
	if a.status != 0 {
		resp.StatusCode = a.status
		resp.Header.Set("Content-Type", "application/problem+json")
	}
	body := io.Reader(strings.NewReader(a.text))
	if a.silent {
		body = io.MultiReader(body, untilDone{r.Context()})
	}
	resp.Body = io.NopCloser(body)
	return resp, nil
}

type untilDone struct{ ctx context.Context }

func (u untilDone) Read([]byte) (int, error) {
	<-u.ctx.Done()
	return 0, u.ctx.Err()
}

// follow follows a run in these streams, from the n-th event on.
func (s *streams) follow(ctx context.Context, n int, f func(control.RunEvent) error) (events []int, err error) {
	s.began = time.Now()
	client, err := control.New(control.ClientConfig{Endpoint: "http://localhost", HTTPClient: &http.Client{Transport: s}})
	if err != nil {
		s.t.Fatal(err)
	}
	err = client.Events(ctx, "r-01", n, func(e control.RunEvent) error {
		events = append(events, e.N)
		if f != nil {
			return f(e)
		}
		return nil
	})
	return events, err
}

func ev(n int) string { return fmt.Sprintf("id: %d\nevent: run\ndata: {\"n\":%d}\n\n", n, n) }

const over = "event: end\ndata: {}\n\n"

func TestEventsGoOnWhereAStreamBroke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &streams{t: t, answers: []streamAnswer{
			{text: ": hello\n\n" + ev(1) + ev(2)},
			{text: ev(3)[:20]},                                 // in the middle of an event
			{text: ev(2) + ev(3) + "event: else\ndata: x\n\n"}, // one that was there
			{status: 503, text: `{"type":"urn:revenant:unavailable","title":"not available"}`},
			{text: "event: problem\ndata: {\"type\":\"urn:revenant:unavailable\"}\n\n"},
			{text: ev(4) + over},
		}}
		events, err := s.follow(t.Context(), 0, nil)
		if want := []int{1, 2, 3, 4}; err != nil || !reflect.DeepEqual(events, want) {
			t.Errorf("events %v, %v, want %v", events, err, want)
		}
		if want := []string{"", "2", "2", "3", "3", "3"}; !reflect.DeepEqual(s.asked, want) {
			t.Errorf("asked for what came after %q, want %q", s.asked, want)
		}
	})
}

func TestEventsOfARunThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &streams{t: t, answers: []streamAnswer{{text: over}}}
		events, err := s.follow(t.Context(), 7, nil)
		if err != nil || len(events) > 0 || !reflect.DeepEqual(s.asked, []string{"7"}) {
			t.Errorf("events %v, %v, asked for what came after %q; want none, nil and 7", events, err, s.asked)
		}
	})
}

func TestEventsGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &streams{t: t, answers: []streamAnswer{{text: ev(1)}}}
		events, err := s.follow(t.Context(), 0, nil)
		if err == nil || !strings.Contains(err.Error(), "connection refused") || len(events) != 1 {
			t.Errorf("events %v, %v, want the first and why there are no more", events, err)
		}
		var pauses []time.Duration
		for i, at := range s.when[1:] {
			pauses = append(pauses, at-s.when[i])
		}
		ms := time.Millisecond
		if want := []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 5000 * ms, 5000 * ms}; !reflect.DeepEqual(pauses, want) {
			t.Errorf("pauses %v, want %v", pauses, want)
		}
	})
}

func TestEventsDoNotGiveUpWhileTheyCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &streams{t: t}
		for n := range 30 {
			s.answers = append(s.answers, streamAnswer{text: ev(n + 1)})
		}
		s.answers = append(s.answers, streamAnswer{text: over})
		events, err := s.follow(t.Context(), 0, nil)
		if err != nil || len(events) != 30 {
			t.Errorf("%d events, %v, want all 30", len(events), err)
		}
		if took := time.Since(s.began); took != 30*100*time.Millisecond {
			t.Errorf("took %v, want the shortest pause each time", took)
		}
	})
}

func TestStreamThatEndsBeforeItsRunIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &streams{t: t, answers: make([]streamAnswer, 9)}
		if _, err := s.follow(t.Context(), 0, nil); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%v, want io.ErrUnexpectedEOF", err)
		}
	})
}

func TestEventsThatNeverBeganAreNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &streams{t: t}
		if _, err := s.follow(t.Context(), 0, nil); err == nil || len(s.asked) != 1 {
			t.Errorf("%v after %d requests, want an error after 1", err, len(s.asked))
		}
	})
}

func TestStreamThatIsSilentIsDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &streams{t: t, answers: []streamAnswer{{text: ev(1), silent: true}, {text: ev(2) + over}}}
		// Who is slow to handle an event makes no stream silent.
		events, err := s.follow(t.Context(), 0, func(control.RunEvent) error {
			time.Sleep(time.Hour)
			return nil
		})
		if want := []int{1, 2}; err != nil || !reflect.DeepEqual(events, want) {
			t.Errorf("events %v, %v, want %v", events, err, want)
		}
		if got := s.when[1]; got < time.Hour+45*time.Second || got > time.Hour+46*time.Second {
			t.Errorf("connected again after %v, want an hour and 45 s", got)
		}
	})
}

func TestEventsEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := errors.New("stop")
		for name, answers := range map[string][]streamAnswer{
			"in a stream": {{text: ev(1), silent: true}},
			"in a pause":  {{text: ev(1)}, {}, {}, {}, {}, {}},
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(stop) })
			s := &streams{t: t, answers: answers}
			if _, err := s.follow(ctx, 0, nil); !errors.Is(err, stop) {
				t.Errorf("%s: %v, want the context's cause", name, err)
			}
			if took := time.Since(s.began); took != time.Second {
				t.Errorf("%s: took %v, want 1s", name, took)
			}
		}
	})
}

func TestProblemsThatWillNotPassEndEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, answer := range map[string]streamAnswer{
			"in place of the stream": {status: 404, text: `{"type":"urn:revenant:not-found"}`},
			"in the stream":          {text: ev(2) + "event: problem\ndata: {\"type\":\"urn:revenant:not-found\"}\n\n"},
		} {
			s := &streams{t: t, answers: []streamAnswer{{text: ev(1)}, answer}}
			if _, err := s.follow(t.Context(), 0, nil); !control.Is(err, control.NotFound) || len(s.asked) != 2 {
				t.Errorf("%s: %v after %d requests, want the problem after 2", name, err, len(s.asked))
			}
		}
	})
}

func TestEventsThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, test := range map[string]struct{ text, want string }{
			"no JSON":      {"event: run\ndata: {\n\n", "an event in the stream"},
			"no problem":   {"event: problem\ndata: {\n\n", "a problem in the stream"},
			"a long event": {"event: run\ndata: " + strings.Repeat("a", control.MaxEvent) + "\n\n", "longer than 1048576 bytes"},
			"a long line":  {strings.Repeat("a", control.MaxEvent+1), "longer than 1048576 bytes"},
			"many lines":   {strings.Repeat("data: "+strings.Repeat("a", 1<<16)+"\n", 17) + "\n", "longer than 1048576 bytes"},
		} {
			s := &streams{t: t}
			for range 9 {
				s.answers = append(s.answers, streamAnswer{text: test.text})
			}
			if _, err := s.follow(t.Context(), 0, nil); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %.200v, want %q in it", name, err, test.want)
			}
		}
	})
}

// The rules of WHATWG HTML #event-stream-interpretation, as far as they matter here.
func TestStreamIsReadAsItsStandardSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, text := range map[string]string{
			"CR":                     strings.ReplaceAll(ev(1)+over, "\n", "\r"),
			"CRLF":                   strings.ReplaceAll(ev(1)+over, "\n", "\r\n"),
			"a byte order mark":      "\ufeffevent: run\ndata: {\"n\":1}\n\n" + over,
			"no blank":               "event:run\ndata:{\"n\":1}\n\n" + over,
			"data in two lines":      "event: run\ndata: {\"n\":\ndata: 1}\n\n" + over,
			"fields without a colon": "retry\nevent: run\ndata: {\"n\":1}\nx\n\n" + over,
			"an event without data":  "event: run\n\n" + ev(1) + over,
			"long comments":          strings.Repeat(": "+strings.Repeat("c", 1<<19)+"\n", 5) + ev(1) + over,
			"an event without name":  "data: x\n\n" + ev(1) + over,
		} {
			s := &streams{t: t, answers: []streamAnswer{{text: text}}}
			if events, err := s.follow(t.Context(), 0, nil); err != nil || !reflect.DeepEqual(events, []int{1}) {
				t.Errorf("%s: events %v, %v, want 1", name, events, err)
			}
		}
	})
}
