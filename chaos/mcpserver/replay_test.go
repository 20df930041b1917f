package mcpserver_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

func TestReplayBeginsWhereTheConfigSays(t *testing.T) {
	for _, test := range []struct {
		replay mcpserver.Replay
		want   []string // from the third of five
		fresh  []string // of a GET without a cursor
	}{
		{mcpserver.ReplayExclusive, []string{"4", "5"}, nil},
		{mcpserver.ReplayInclusive, []string{"3", "4", "5"}, nil},
		{mcpserver.ReplayFull, []string{"1", "2", "3", "4", "5"}, []string{"1", "2", "3", "4", "5"}},
	} {
		virtual(t, mcpserver.Config{Replay: test.replay}, func(t *testing.T, b *bed) {
			session := b.initialize()
			stream := b.listen(session)
			call, _ := b.open("POST", session, "", toolCall(1, "emit", `{"count":2}`)).settled()
			for _, text := range []string{"1", "2", "3", "4", "5"} {
				b.emit(session, text)
			}
			first, _ := stream.settled()
			stream.cut()

			resumed := b.open("GET", session, first[2].id, "")
			got, ended := resumed.settled()
			if !slices.Equal(texts(t, got), test.want) || ended {
				t.Errorf("%v: replay %q, ended %v, want %q and open", test.replay, texts(t, got), ended, test.want)
			}
			if n := len(first) - len(test.want); !slices.Equal(got, first[n:]) {
				t.Errorf("%v: replay %+v, want the events as they were", test.replay, got)
			}
			resumed.cut()
			synctest.Wait()

			fresh := b.listen(session)
			if got, _ := fresh.settled(); !slices.Equal(texts(t, got), test.fresh) {
				t.Errorf("%v: GET without a cursor: %q, want %q", test.replay, texts(t, got), test.fresh)
			}
			b.emit(session, "6")
			if got := texts(t, []frame{fresh.next()}); got[0] != "6" {
				t.Errorf("%v: then %q, want what is new", test.replay, got)
			}

			again, ended := b.open("GET", session, call[1].id, "").settled()
			want := map[mcpserver.Replay][]frame{
				mcpserver.ReplayExclusive: call[2:], mcpserver.ReplayInclusive: call[1:], mcpserver.ReplayFull: call,
			}[test.replay]
			if !slices.Equal(again, want) || !ended {
				t.Errorf("%v: the call's stream again: %+v, ended %v, want %+v and the end", test.replay, again, ended, want)
			}

			requests := b.server.Oracle().History().Requests
			if last := requests[len(requests)-2]; last.LastEventID != "" {
				t.Errorf("%v: the oracle says that the GET without a cursor had %q", test.replay, last.LastEventID)
			}
		})
	}
}

func TestFullReplayOfAnEmptyStreamIsNone(t *testing.T) {
	virtual(t, mcpserver.Config{Replay: mcpserver.ReplayFull}, func(t *testing.T, b *bed) {
		session := b.initialize()
		// Not the standalone stream's.
		b.open("POST", session, "", toolCall(1, "emit", `{"count":2}`)).settled()
		stream := b.listen(session)
		if got, ended := stream.settled(); len(got) != 0 || ended {
			t.Errorf("GET: %+v, ended %v, want an open stream without an event", got, ended)
		}
		b.emit(session, "one")
		stream.next()
	})
}

func TestReplayHasOnlyWhatTheLogRemembers(t *testing.T) {
	cfg := mcpserver.Config{Replay: mcpserver.ReplayFull, LogRetention: time.Minute}
	virtual(t, cfg, func(t *testing.T, b *bed) {
		session := b.initialize()
		stream := b.listen(session)
		b.emit(session, "old")
		elapse(30 * time.Second)
		b.emit(session, "new")
		got, _ := stream.settled()
		elapse(30 * time.Second)
		for _, cursor := range []string{got[1].id, ""} {
			replay, _ := b.open("GET", session, cursor, "").settled()
			if want := []string{"new"}; !slices.Equal(texts(t, replay), want) {
				t.Errorf("replay from %q: %q, want %q", cursor, texts(t, replay), want)
			}
		}
	})
}

// A replay sends a request again whatever has become of it; only its token says
// whether it is worth an answer.
func TestLivenessTokenIsFreshWhileTheRequestIsPending(t *testing.T) {
	cfg := mcpserver.Config{Replay: mcpserver.ReplayInclusive, LivenessToken: true}
	virtual(t, cfg, func(t *testing.T, b *bed) {
		session := b.initialize()
		call, q := b.confirm(session, 7, `{"message":"Really?","times":2}`)
		first := q.token(t)
		if len(first) < 20 {
			t.Fatalf("token %q, want a long one", first)
		}
		resume := func() []frame {
			t.Helper()
			call.cut()
			call = b.open("GET", session, q.id, "")
			got, _ := call.settled()
			if len(got) == 0 || got[0].id != q.id {
				t.Fatalf("replay: %+v, want the question first", got)
			}
			return got
		}
		seen := map[string]bool{first: true}
		for range 3 {
			again := resume()[0]
			token := again.token(t)
			if token == "" || seen[token] {
				t.Errorf("token of a replay: %q, want a new one", token)
			}
			seen[token] = true
			if back := strings.Replace(again.data, token, first, 1); back != q.data {
				t.Errorf("replayed question: %s, want %s but for the token", again.data, q.data)
			}
		}
		b.reply(session, q.asked(t).ID, yes)
		synctest.Wait()
		got := resume()
		if got[0] != q {
			t.Errorf("answered question, replayed: %+v, want it as it was first sent", got[0])
		}
		if len(got) != 2 || got[1].token(t) == "" || seen[got[1].token(t)] {
			t.Errorf("after it: %+v, want the next question with a token of its own", got)
		}
		second := got[1].asked(t).ID
		if asks := b.server.Oracle().History().Asks; asks[0].SentAgain != 4 || asks[1].SentAgain != 1 || len(asks) != 2 {
			t.Errorf("asks: %+v, want 2, sent again 4 times and once", asks)
		}
		if n := len(b.records(mcpserver.AskSentAgain)); n != 5 {
			t.Errorf("told of %d repetitions, want 5", n)
		}

		b.server.Reap(session)
		first = resume()[1].token(t)
		if token := resume()[1].token(t); token != first {
			t.Errorf("tokens of a dead session's question: %q and %q, want the same", first, token)
		}
		if asks := b.server.Oracle().History().Asks; asks[1].ID != second || asks[1].Why != mcpserver.WhySession {
			t.Errorf("asks: %+v, want that the second ended with its session", asks)
		}
	})
}

func TestNoLivenessTokenByDefault(t *testing.T) {
	virtual(t, mcpserver.Config{Replay: mcpserver.ReplayInclusive}, func(t *testing.T, b *bed) {
		session := b.initialize()
		_, q := b.confirm(session, 7, `{"message":"?"}`)
		if token := q.token(t); token != "" {
			t.Errorf("token %q, want none", token)
		}
		if got, _ := b.open("GET", session, q.id, "").settled(); len(got) != 1 || got[0] != q {
			t.Errorf("replay: %+v, want %+v", got, q)
		}
	})
}
