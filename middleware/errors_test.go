package middleware_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/revenant-mcp/revenant/middleware"
)

func TestErrorText(t *testing.T) {
	for _, test := range []struct {
		err  *middleware.SessionResumptionError
		want string
	}{
		{
			&middleware.SessionResumptionError{
				SessionID: "0123456789abcdef", LastEventID: "e-77", Phase: middleware.PhaseProbe, Verdict: middleware.Dead,
				StatusCode: 410, ContentType: "text/html", QuarantinedEvents: 12, OutcomeUnknown: true,
				Err: middleware.ErrSessionDead, Detail: "the probe was answered 410",
			},
			`middleware: session is dead (session "…89abcdef", phase probe, status 410, content type "text/html"): ` +
				"the probe was answered 410; 12 replayed events quarantined; the outcome of what was in flight is unknown",
		},
		{
			&middleware.SessionResumptionError{SessionID: "0123456789abcdef", Phase: middleware.PhaseReplay, Err: middleware.ErrLivenessUnknown},
			`middleware: session liveness is unknown (session "…89abcdef", phase replay)`,
		},
		{
			&middleware.SessionResumptionError{SessionID: "0123456789abcdef", Phase: middleware.PhaseFence, Err: middleware.ErrReplayTooLarge, StatusCode: 200},
			`middleware: replayed event is too large (session "…89abcdef", phase fence, status 200)`,
		},
	} {
		if got := test.err.Error(); got != test.want {
			t.Errorf("Error() = %q, want %q", got, test.want)
		}
	}
}

// An id often is all that a server asks for, and errors end in logs.
func TestErrorNeverTellsTheWholeSessionID(t *testing.T) {
	const alphabet = "zqZQwyWY" // of which no message is made
	for _, id := range []string{
		"zqwy", "zqwyZQ", "zqwyZQW", alphabet, alphabet + "z", strings.Repeat(alphabet, 8),
		strings.Repeat("\u00e9", 9), "zq\"\n\x00wyzqwy", "\n\x00\"zqwyzq\"\n\x00", strings.Repeat("\u4f1a", 4),
	} {
		text := (&middleware.SessionResumptionError{SessionID: id, Phase: middleware.PhaseFence, StatusCode: 404, Err: middleware.ErrSessionDead}).Error()
		if strings.Contains(text, id) || strings.Contains(text, strings.Trim(fmt.Sprintf("%q", id), `"`)) {
			t.Errorf("Error() = %q, want it not to tell the whole of %q", text, id)
		}
		if strings.ContainsAny(text, "\n\x00") {
			t.Errorf("Error() = %q, want %q quoted", text, id)
		}
	}
}

// So do the answers that a client gets, which it may log as well.
func TestAnswersNeverTellTheWholeSessionID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{AmbiguousRounds: 2})
		defer w.close()
		w.get, w.post = sseAnswer(block(1)), status(400, "text/plain", sid)
		for range 3 {
			resp, text := w.spin("c-0")
			if strings.Contains(text, sid) || strings.Contains(fmt.Sprint(resp.Header), sid) {
				t.Errorf("answer is %q, want it not to tell %q", text, sid)
			}
		}
	})
}

func TestErrorsIsAndAs(t *testing.T) {
	sentinels := []error{middleware.ErrSessionDead, middleware.ErrLivenessUnknown, middleware.ErrReplayTooLarge}
	for _, sentinel := range sentinels {
		e := &middleware.SessionResumptionError{SessionID: sid, Err: sentinel}
		wrapped := fmt.Errorf("calling tools/list: %w", fmt.Errorf("post: %w", e))
		for _, other := range sentinels {
			if got, want := errors.Is(wrapped, other), other == sentinel; got != want {
				t.Errorf("errors.Is(%v, %v) = %v, want %v", wrapped, other, got, want)
			}
		}
		if errors.Is(wrapped, io.EOF) {
			t.Errorf("errors.Is(%v, EOF) = true, want false", wrapped)
		}
		var as *middleware.SessionResumptionError
		if !errors.As(wrapped, &as) || as != e {
			t.Errorf("errors.As(%v) = %v, want the error itself", wrapped, as)
		}
	}
	if e := (&middleware.SessionResumptionError{}); e.Error() == "" || e.Unwrap() != nil {
		t.Errorf("zero: Error() = %q, Unwrap() = %v, want a text and nil", e.Error(), e.Unwrap())
	}
}

func TestSentinelsAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, err := range []error{middleware.ErrSessionDead, middleware.ErrLivenessUnknown, middleware.ErrReplayTooLarge} {
		if seen[err.Error()] {
			t.Errorf("two sentinels say %q", err)
		}
		seen[err.Error()] = true
	}
}

func TestNamesOfVerdictsAndKinds(t *testing.T) {
	for v, want := range map[middleware.Verdict]string{middleware.Ambiguous: "ambiguous", middleware.Live: "live", middleware.Dead: "dead", 99: "ambiguous"} {
		if got := v.String(); got != want {
			t.Errorf("Verdict(%d).String() = %q, want %q", v, got, want)
		}
	}
	var zero middleware.Verdict
	if zero != middleware.Ambiguous {
		t.Errorf("the zero Verdict is %v, want %v: what is not known to live is not alive", zero, middleware.Ambiguous)
	}
	names := map[string]bool{}
	for k := middleware.Held; k <= middleware.CursorRestored; k++ {
		if name := k.String(); name == "unknown" || names[name] {
			t.Errorf("Kind(%d).String() = %q, want a name of its own", k, name)
		}
		names[k.String()] = true
	}
	for _, k := range []middleware.Kind{0, 200} {
		if got := k.String(); got != "unknown" {
			t.Errorf("Kind(%d).String() = %q, want unknown", k, got)
		}
	}
}

// One error is shared by all who receive it; what each gets of its own is a
// copy.
func TestAFencedErrorIsNotTheDeathsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.kill()
		before := *typed(t, w.transport.SessionErr(sid))
		resp, err := w.reconnect("c-5")
		if e := problem(t, resp, err); e.LastEventID != "c-5" || e.Phase != middleware.PhaseFence {
			t.Errorf("error is %#v, want phase fence and cursor c-5", e)
		}
		after := *typed(t, w.transport.SessionErr(sid))
		if after.LastEventID != before.LastEventID || after.Phase != before.Phase {
			t.Errorf("SessionErr = %#v, want it as before, %#v", after, before)
		}
	})
}
