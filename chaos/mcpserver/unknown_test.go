package mcpserver_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/internal/memnettest"
)

const pingBody = `{"jsonrpc":"2.0","id":"p","method":"ping"}`

func TestRequestOfADeadOrUnknownSessionGetsWhatTheConfigSays(t *testing.T) {
	const (
		plain = "text/plain; charset=utf-8"
		json  = "application/json"
		noID  = `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`
		bad   = `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`
	)
	type answer struct {
		status          int
		media, contains string
	}
	dead := answer{404, plain, "Session terminated"}
	for _, test := range []struct {
		unknown mcpserver.UnknownSession
		ping    answer // with an id
		get     answer // without one, as are notifications
		nobody  answer // a ping of a session that never was
		taken   int    // the status that an answer to the server gets
	}{
		{mcpserver.UnknownNotFound, dead, dead, answer{404, plain, "Invalid session ID"}, 404},
		{mcpserver.UnknownGone, answer{410, plain, "Session terminated"}, answer{410, plain, "Session terminated"}, answer{410, plain, "Invalid session ID"}, 410},
		{mcpserver.UnknownBadRequest, answer{400, json, bad}, answer{400, json, bad}, answer{400, json, bad}, 400},
		{mcpserver.UnknownUnauthorized, answer{401, plain, "Session not found"}, answer{401, plain, "Session not found"}, answer{401, plain, "Session not found"}, 401},
		{mcpserver.UnknownUnavailable, answer{503, plain, "not available"}, answer{503, plain, "not available"}, answer{503, plain, "not available"}, 503},
		{
			mcpserver.UnknownErrorIn200,
			answer{200, json, `{"jsonrpc":"2.0","id":"p","error":{"code":-32001,"message":"Session not found"}}`},
			answer{200, json, noID},
			answer{200, json, `"id":"p","error"`},
			200,
		},
	} {
		virtual(t, mcpserver.Config{UnknownSession: test.unknown, GETChecksSession: true}, func(t *testing.T, b *bed) {
			session, living := b.initialize(), b.initialize()
			stream := b.listen(session)
			b.emit(session, "one")
			b.emit(session, "two")
			cursor := stream.next().id
			stream.cut()
			b.server.Reap(session)

			check := func(what, method, session, cursor, body string, want answer) {
				t.Helper()
				resp, got := b.do(method, session, cursor, body)
				if resp.StatusCode != want.status || resp.Header.Get("Content-Type") != want.media || !strings.Contains(got, want.contains) {
					t.Errorf("%v: %s gets %s, %q, %q, want %+v", test.unknown, what, resp.Status, resp.Header.Get("Content-Type"), got, want)
				}
				if resp.Header.Get(sessionHeader) != "" || resp.Header.Get("WWW-Authenticate") != "" || resp.Header.Get("Retry-After") != "" {
					t.Errorf("%v: %s gets the header %v, want no more in it", test.unknown, what, resp.Header)
				}
			}
			check("ping", "POST", session, "", pingBody, test.ping)
			check("resume", "GET", session, cursor, "", test.get)
			check("GET without a cursor", "GET", session, "", "", test.get)
			check("notification", "POST", session, "", `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, test.get)
			check("ping of an unknown session", "POST", "nobody", "", pingBody, test.nobody)
			if status := b.reply(session, 1, yes); status != test.taken {
				t.Errorf("%v: an answer to the server gets %d, want %d", test.unknown, status, test.taken)
			}
			h := b.server.Oracle().History()
			if n := len(h.Answers); n != 1 || h.Answers[0].Status != test.taken || h.Answers[0].Taken || h.Answers[0].SessionID != session {
				t.Errorf("%v: answers %+v, want one, not taken", test.unknown, h.Answers)
			}
			if last := h.Requests[len(h.Requests)-1]; last.Status != test.taken || last.SessionAlive {
				t.Errorf("%v: last request %+v, want status %d", test.unknown, last, test.taken)
			}

			if resp, _ := b.do("POST", "", "", pingBody); resp.StatusCode != 404 {
				t.Errorf("%v: ping without a session gets %s, want mcp-go's 404", test.unknown, resp.Status)
			}
			for _, id := range []string{session, "nobody"} {
				if resp, _ := b.do("DELETE", id, "", ""); resp.StatusCode != 200 {
					t.Errorf("%v: DELETE of %s gets %s, want 200", test.unknown, id, resp.Status)
				}
			}
			if resp, _ := b.do("POST", session, "", initializeBody); resp.StatusCode != 200 || resp.Header.Get(sessionHeader) == session {
				t.Errorf("%v: initialize with a dead session's id gets %s and %q, want 200 and another", test.unknown, resp.Status, resp.Header.Get(sessionHeader))
			}
			if status := b.ping(living); status != 200 {
				t.Errorf("%v: ping of a living session gets %d, want 200", test.unknown, status)
			}
			b.listen(living)
		})
	}
}

// The defect is the default: a GET asks the log only.
func TestGETChecksTheSessionOnlyIfToldTo(t *testing.T) {
	for _, checks := range []bool{false, true} {
		virtual(t, mcpserver.Config{UnknownSession: mcpserver.UnknownGone, GETChecksSession: checks}, func(t *testing.T, b *bed) {
			session := b.initialize()
			stream := b.listen(session)
			b.emit(session, "one")
			b.emit(session, "two")
			cursor := stream.next().id
			stream.cut()
			b.server.Reap(session)
			synctest.Wait()
			want := map[bool]int{false: 200, true: 410}[checks]
			for _, r := range []*http.Request{
				b.request("GET", session, cursor, ""),
				b.request("GET", session, "", ""),
				b.request("GET", "nobody", "", ""),
			} {
				resp, err := b.client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.StatusCode != want {
					t.Errorf("checks %v: GET of %q from %q: %s, want %d", checks, r.Header.Get(sessionHeader), r.Header.Get("Last-Event-ID"), resp.Status, want)
				}
			}
		})
	}
}

func TestGETThatChecksRefreshesNothing(t *testing.T) {
	virtual(t, mcpserver.Config{SessionTTL: time.Minute, GETChecksSession: true}, func(t *testing.T, b *bed) {
		session := b.initialize()
		elapse(50 * time.Second)
		b.listen(session)
		elapse(10 * time.Second)
		if status := b.ping(session); status != 404 {
			t.Errorf("ping a minute after the last POST: %d, want 404", status)
		}
	})
}

// What has been decided on arrival stands when mcp-go asks later.
func TestNoStray404WhereSessionsAreRefusedOtherwise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnettest.New()
		s, err := mcpserver.New(mcpserver.Config{
			Listener: memnettest.New(), SessionTTL: 500 * time.Millisecond, UnknownSession: mcpserver.UnknownGone,
		})
		if err != nil {
			t.Fatal(err)
		}
		hs := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.Handler().ServeHTTP(eager{w}, r)
		})}
		go hs.Serve(l)
		transport := &http.Transport{DialContext: l.DialContext}
		b := &bed{t: t, server: s, client: &http.Client{Transport: transport}}
		resp, err := b.client.Do(b.request("POST", "", "", initializeBody))
		if err != nil {
			t.Fatal(err)
		}
		// It waits until initialize has left, and the session is dead by then.
		if status := b.reply(resp.Header.Get(sessionHeader), 7, yes); status != 400 {
			t.Errorf("an answer of a session that dies meanwhile: %d, want 400 as nothing was asked", status)
		}
		resp.Body.Close()
		s.Close()
		hs.Close()
		transport.CloseIdleConnections()
	})
}

// Who serves the Handler may look at the request afterwards.
func TestRequestIsNotChangedForWhoServesTheHandler(t *testing.T) {
	s, err := mcpserver.New(mcpserver.Config{Listener: memnettest.New(), UnknownSession: mcpserver.UnknownReplace, GETChecksSession: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, method := range []string{"POST", "GET"} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // The stream is not to last.
		r := (&bed{t: t, server: s}).request(method, "nobody", "7", pingBody).WithContext(ctx)
		before := r.Header.Clone()
		s.Handler().ServeHTTP(httptest.NewRecorder(), r)
		if !reflect.DeepEqual(r.Header, before) {
			t.Errorf("%s: header %q, want as before %q", method, r.Header, before)
		}
	}
}

func TestAdoptedSessionLivesAgain(t *testing.T) {
	cfg := mcpserver.Config{SessionTTL: time.Minute, UnknownSession: mcpserver.UnknownAdopt}
	virtual(t, cfg, func(t *testing.T, b *bed) {
		t0 := time.Now()
		session := b.initialize()
		stream := b.listen(session)
		_, q := b.confirm(session, 1, `{"message":"?"}`)
		b.emit(session, "one")
		b.emit(session, "two")
		cursor := stream.next().id
		stream.cut()
		elapse(2 * time.Minute)

		resp, body := b.do("POST", session, "", pingBody)
		if resp.StatusCode != 200 || resp.Header.Get(sessionHeader) != "" || body != `{"jsonrpc":"2.0","id":"p","result":{}}`+"\n" {
			t.Errorf("ping: %s, session %q, %q, want an answer as if nothing had been", resp.Status, resp.Header.Get(sessionHeader), body)
		}
		want := []mcpserver.Session{
			{ID: session, Created: t0, Died: t0.Add(time.Minute), Why: mcpserver.WhyExpired},
			{ID: session, Created: t0.Add(2 * time.Minute), Adopted: true},
		}
		if got := b.server.Oracle().History().Sessions; !slices.Equal(got, want) {
			t.Errorf("sessions %+v, want %+v", got, want)
		}
		if at, dead := b.server.Oracle().DiedAt(session); dead {
			t.Errorf("DiedAt() = %v, want that it lives", at)
		}
		if status := b.reply(session, q.asked(t).ID, yes); status != 400 {
			t.Errorf("answer to a question of the earlier life: %d, want 400", status)
		}
		stream = b.open("GET", session, cursor, "")
		b.emit(session, "three")
		got, _ := stream.settled()
		if want := []string{"two", "three"}; !slices.Equal(texts(t, got), want) {
			t.Errorf("resumed stream: %q, want %q", texts(t, got), want)
		}
		requests := b.server.Oracle().History().Requests
		if first := requests[len(requests)-3]; first.RPC != "ping" || first.SessionAlive {
			t.Errorf("the ping: %+v, want that its session was dead at arrival", first)
		}

		elapse(time.Minute)
		synctest.Wait()
		created, died := b.records(mcpserver.SessionCreated), b.records(mcpserver.SessionDied)
		if len(created) != 2 || created[1].Session != want[1] || len(died) != 2 {
			t.Errorf("told of %+v, and of %d deaths on time, want two sessions and theirs", created, len(died))
		}
		if at, _ := b.server.Oracle().DiedAt(session); !at.Equal(t0.Add(3 * time.Minute)) {
			t.Errorf("DiedAt() = %v, want a minute after the last POST of its second life", at)
		}
		if status := b.ping("nobody"); status != 200 {
			t.Errorf("ping of a session that never was: %d, want 200", status)
		}
		fresh := b.listen("nobody")
		b.emit("nobody", "x")
		if got, _ := fresh.settled(); len(got) != 1 {
			t.Errorf("its stream: %+v, want what was emitted", got)
		}
	})
}

func TestSessionAdoptedAfterDELETEHasEventsAgain(t *testing.T) {
	virtual(t, mcpserver.Config{UnknownSession: mcpserver.UnknownAdopt}, func(t *testing.T, b *bed) {
		session := b.initialize()
		// It keeps what is known of the session beyond the DELETE.
		b.open("POST", session, "", toolCall(1, "work", `{"events":5,"interval_ms":1000,"detached":true}`))
		if resp, _ := b.do("DELETE", session, "", ""); resp.StatusCode != 200 {
			t.Fatalf("DELETE: %s, want 200", resp.Status)
		}
		b.ping(session)
		stream := b.listen(session)
		b.emit(session, "one")
		if got, _ := stream.settled(); len(got) != 1 || got[0].id == "" {
			t.Errorf("after the adoption: %+v, want the event, with an id", got)
		}
	})
}

func TestReplacedSessionAnswersInAnothersName(t *testing.T) {
	cfg := mcpserver.Config{SessionTTL: time.Minute, UnknownSession: mcpserver.UnknownReplace, GETChecksSession: true}
	virtual(t, cfg, func(t *testing.T, b *bed) {
		session := b.initialize()
		stream := b.listen(session)
		b.emit(session, "one")
		cursor := stream.next().id
		stream.cut()
		if resp, _ := b.do("POST", session, "", pingBody); resp.Header.Get(sessionHeader) != "" {
			t.Errorf("a living session's answer names %q, want nothing", resp.Header.Get(sessionHeader))
		}
		elapse(2 * time.Minute)

		resp, body := b.do("POST", session, "", pingBody)
		other := resp.Header.Get(sessionHeader)
		if resp.StatusCode != 200 || other == "" || other == session || body != `{"jsonrpc":"2.0","id":"p","result":{}}`+"\n" {
			t.Fatalf("ping: %s, session %q, %q, want an answer in another's name", resp.Status, other, body)
		}
		resp, body = b.do("POST", session, "", toolCall(2, "echo", `{"text":"x"}`))
		if got := resp.Header.Get(sessionHeader); got != other || !strings.Contains(body, `"session":"`+other+`"`) {
			t.Errorf("the next call is answered by %q with %s, want by %s and with its stamp", got, body, other)
		}
		stream = b.open("GET", session, cursor, "")
		if got := stream.resp.Header.Get(sessionHeader); got != other {
			t.Errorf("GET is answered by %q, want by %s", got, other)
		}
		b.emit(other, "two")
		if got, _ := stream.settled(); !slices.Equal(texts(t, got), []string{"two"}) {
			t.Errorf("the stream: %q, want that of %s, without a replay", texts(t, got), other)
		}

		h := b.server.Oracle().History()
		if len(h.Sessions) != 2 || h.Sessions[1].ID != other || h.Sessions[1].Adopted {
			t.Errorf("sessions %+v, want the dead one and %s", h.Sessions, other)
		}
		for _, r := range h.Requests[len(h.Requests)-3:] {
			if r.SessionID != session || r.AnsweredAs != other || r.SessionAlive {
				t.Errorf("request %+v, want as sent, and answered as %s", r, other)
			}
		}

		elapse(2 * time.Minute)
		synctest.Wait()
		if created, died := b.records(mcpserver.SessionCreated), b.records(mcpserver.SessionDied); len(created) != 2 || len(died) != 2 {
			t.Errorf("told of %+v and %+v, want of both sessions", created, died)
		}
		resp, _ = b.do("POST", session, "", pingBody)
		if third := resp.Header.Get(sessionHeader); third == "" || third == session || third == other {
			t.Errorf("when that is dead too, a ping is answered by %q, want by a third", third)
		}
	})
}

func TestStreamOfAReplacedSessionIsAttachedLikeAnother(t *testing.T) {
	cfg := mcpserver.Config{UnknownSession: mcpserver.UnknownReplace, GETChecksSession: true, Conflict: mcpserver.ConflictRefused}
	virtual(t, cfg, func(t *testing.T, b *bed) {
		session := b.initialize()
		stream := b.listen(session)
		b.emit(session, "one")
		cursor := stream.next().id
		stream.cut()
		b.server.Reap(session)
		b.open("GET", session, cursor, "")
		if status := b.get(session, cursor); status != 409 {
			t.Errorf("GET while the other session's stream is attached: %d, want 409", status)
		}
	})
}

// What clients do with these answers is why there is a choice.
func TestSDKClientOnARefusedSession(t *testing.T) {
	for _, test := range []struct {
		unknown mcpserver.UnknownSession
		missing bool   // the error is ErrSessionMissing
		want    string // what its text contains; "": there is no error
	}{
		{mcpserver.UnknownNotFound, true, ""},
		{mcpserver.UnknownGone, false, "Gone"},
		{mcpserver.UnknownBadRequest, false, "Bad Request"},
		{mcpserver.UnknownUnauthorized, false, "Unauthorized"},
		{mcpserver.UnknownUnavailable, false, "Service Unavailable"},
		{mcpserver.UnknownErrorIn200, false, "Session not found"},
		{mcpserver.UnknownAdopt, false, ""},
		{mcpserver.UnknownReplace, false, "mismatching session IDs"},
	} {
		virtual(t, mcpserver.Config{UnknownSession: test.unknown}, func(t *testing.T, b *bed) {
			c := connect(b, "2025-11-25")
			b.server.Reap(c.ID())
			_, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "x"}})
			fails := test.missing || test.want != ""
			if (err != nil) != fails || errors.Is(err, mcp.ErrSessionMissing) != test.missing ||
				err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v: CallTool() = %v, want session missing %v, and %q", test.unknown, err, test.missing, test.want)
			}
		})
	}
}
