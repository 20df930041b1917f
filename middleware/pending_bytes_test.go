package middleware_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// ways are the ways to write one event with the id and the request ids %s, and
// what stands in for it when it is kept back.
var ways = []struct{ name, event, blank string }{
	{"LF", "id: %[1]s\ndata: {\"jsonrpc\":\"2.0\",\"id\":%[2]s,\"method\":\"roots/list\"}\n\n", "id: %[1]s\ndata: \n\n"},
	{"CRLF", "id: %[1]s\r\ndata: {\"id\":%[2]s,\"method\":\"roots/list\"}\r\n\r\n", "id: %[1]s\ndata: \n\n"},
	{"CR", "id: %[1]s\rdata: {\"id\":%[2]s,\"method\":\"roots/list\"}\r\r", "id: %[1]s\ndata: \n\n"},
	{"no space", "id:%[1]s\ndata:{\"id\":%[2]s,\"method\":\"roots/list\"}\n\n", "id: %[1]s\ndata: \n\n"},
	{"data first", "data: {\"method\":\"roots/list\",\"id\":%[2]s}\nid: %[1]s\n\n", "id: %[1]s\ndata: \n\n"},
	{"more fields", "event: message\nid: %[1]s\nretry: 100\n: why\nother: x\ndata: {\"id\":%[2]s,\"method\":\"roots/list\"}\n\n", "id: %[1]s\nretry: 100\ndata: \n\n"},
	{"a name", "event: elicitation\nid: %[1]s\ndata: {\"id\":%[2]s,\"method\":\"roots/list\"}\n\n", "id: %[1]s\ndata: \n\n"},
	{"two lines", "id: %[1]s\ndata: {\"id\":%[2]s,\ndata: \"method\":\"roots/list\"}\n\n", "id: %[1]s\ndata: \n\n"},
	{"many lines", "id: %[1]s\ndata: {\ndata: \"id\"\ndata:   :%[2]s,\ndata\ndata:  \"method\" : \"roots/list\" }\n\n", "id: %[1]s\ndata: \n\n"},
	{"escaped id", "id: %[1]s\ndata: {\"\\u0069d\":%[2]s,\"method\":\"roots/list\"}\n\n", "id: %[1]s\ndata: \n\n"},
	{"a reset cursor", "id:\ndata: {\"id\":%[2]s,\"method\":\"roots/list\"}\n\n", "id: \ndata: \n\n"},
	{"no cursor", "data: {\"id\":%[2]s,\"method\":\"roots/list\"}\n\n", ""},
	{"only a retry", "retry: 5\ndata: {\"id\":%[2]s,\"method\":\"roots/list\"}\n\n", "retry: 5\ndata: \n\n"},
	{"two lines, CR", "data: {\"id\":%[2]s,\rdata: \"method\":\"roots/list\"}\rid: %[1]s\r\r", "id: %[1]s\ndata: \n\n"},
	{"many lines, CR", "id: %[1]s\rdata: {\"id\":%[2]s,\rdata: \"method\":\rdata: \"roots/list\"}\r\r", "id: %[1]s\ndata: \n\n"},
	{"an empty line between", "id: %[1]s\ndata: {\"id\":%[2]s,\"method\":\ndata\ndata: \"roots/list\"}\n\n", "id: %[1]s\ndata: \n\n"},
	{"a comment between", "id: %[1]s\ndata: {\"id\":%[2]s,\"method\":\n: why\ndata: \"roots/list\"}\n\n", "id: %[1]s\ndata: \n\n"},
	{"in a batch", "id: %[1]s\ndata: [{\"id\":%[2]s,\"method\":\"roots/list\"}]\n\n", "id: %[1]s\ndata: \n\n"},
	{"a batch in lines", "id: %[1]s\ndata: [\ndata: {\"id\":%[2]s,\ndata: \"method\":\"roots/list\"}\ndata: ]\n\n", "id: %[1]s\ndata: \n\n"},
	{"a CR in the data", "id: %[1]s\ndata: {\"id\":%[2]s,\r\"method\":\"roots/list\"}\n\n", "id: %[1]s\ndata: \n\n"},
}

// blankAs is what stands in for an event with the id. The LF of a CR LF that
// comes later than its CR stays, as an empty line.
func blankAs(way, id string) string { return strings.ReplaceAll(way, "%[1]s", id) }

func withoutEmptyLines(s string) string { return strings.ReplaceAll(s, "\n\n\n", "\n\n") }

// However an event is written and however it arrives, it reaches the client
// once, unchanged, and what is kept back leaves its cursor.
func TestARequestIsRecognizedHoweverItComes(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				f := newFeed()
				w.get = f.ServeHTTP
				r := follow(w.open(), 4096)
				var want strings.Builder
				event := func(n int) string { return fmt.Sprintf(way.event, fmt.Sprint("e-", n), fmt.Sprint(1000+n)) }
				give := func(pieces ...string) {
					for _, p := range pieces {
						if p != "" {
							f.pieces <- p
							synctest.Wait()
						}
					}
				}
				for at := range len(event(0)) { // cut at every place
					e := event(at)
					give(e[:at], e[at:])
					want.WriteString(e)
					give(e[:at], e[at:])
					want.WriteString(blankAs(way.blank, fmt.Sprint("e-", at)))
				}
				e := event(5000) // in single bytes
				give(strings.Split(e+e, "")...)
				want.WriteString(e + blankAs(way.blank, "e-5000"))
				e = event(5001) // in one piece, and with others
				other := notification("n-1", "between")
				give(other + e + other + e + other)
				want.WriteString(other + e + other + blankAs(way.blank, "e-5001") + other)
				close(f.pieces)
				<-r.done
				if got := withoutEmptyLines(r.text()); got != want.String() || r.ended() != io.EOF {
					i := 0
					for i < min(len(got), want.Len()) && got[i] == want.String()[i] {
						i++
					}
					t.Errorf("read …%.200q and %v, want …%.200q", got[max(0, i-100):], r.ended(), want.String()[max(0, i-100):])
				}
				r.body.Close()
			})
		})
	}
}

// The same on a replay: part of an event is held, and the rest comes after the
// verdict.
func TestAReplayedRequestIsRecognizedHoweverItComes(t *testing.T) {
	for _, way := range ways {
		if !strings.HasPrefix(way.blank, "id: %") {
			continue // the next reconnect needs a cursor
		}
		t.Run(way.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.post = after(time.Millisecond, alive)
				event := fmt.Sprintf(way.event, "e-1", "12")
				w.get = sseAnswer(event)
				if got := read(t, w.open()); got != event {
					t.Fatalf("the first time: %q, want %q", got, event)
				}
				news := notification("n-1", "news")
				want := news + blankAs(way.blank, "e-1") + news
				all := news + event + news
				for at := range len(all) {
					w.get = func(rw http.ResponseWriter, r *http.Request) {
						sseAnswer(all[:at])(rw, r)
						after(time.Second, sendMore(all[at:]))(rw, r)
					}
					if got := withoutEmptyLines(read(t, w.resume(t, "n-1"))); got != want {
						t.Fatalf("cut after %q: %q, want %q", all[:at], got, want)
					}
				}
			})
		})
	}
}

func sendMore(text string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, text) }
}

// A mark of the byte order before the first event is no part of it.
func TestARequestBehindAByteOrderMark(t *testing.T) {
	for _, p := range []place{places[0], onCall} {
		inBubble(t, p, middleware.Config{}, func(t *testing.T, a *asker) {
			ask := a.event(elicitation)
			if got := a.takes(a.opens(sseAnswer("\uFEFF" + ask))); got != "\uFEFF"+ask {
				t.Errorf("the first time: %q, want it unchanged", got)
			}
			a.cursor = "e-1"
			for _, mark := range []string{"\uFEFF", "\uFEFF\n", "\uFEFF: c\n", ": c\n\n\r\n"} {
				a.get = sseAnswer(mark + ask)
				if got, want := a.takes(a.resume(t, a.cursor)), mark+blank(ask); got != want {
					t.Errorf("replayed: %q, want %q", got, want)
				}
			}
		})
	}
}

// Of a batch only the messages in question go.
func TestABatchKeepsWhatIsNotSuppressed(t *testing.T) {
	other := request("13", "roots/list")
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		batch := func(messages ...string) string { return "[" + strings.Join(messages, ",") + "]" }
		if sent, got := a.brings(batch(progress, elicitation)); got != sent {
			t.Errorf("the first time: %q, want %q", got, sent)
		}
		for _, tc := range []struct {
			sent []string
			want string
		}{
			{[]string{progress, elicitation}, batch(progress)},
			{[]string{elicitation, other, elicitation}, batch(other)},
			{[]string{elicitation, other}, ""},
			{[]string{progress, progress}, batch(progress, progress)},
		} {
			sent, got := a.replays(batch(tc.sent...))
			want := strings.Replace(sent, batch(tc.sent...), tc.want, 1)
			if got != want {
				t.Errorf("%q: %q, want %q", sent, got, want)
			}
		}
		a.loses()
		sent, got := a.replays(batch(progress, elicitation, other))
		id, _, _ := strings.Cut(sent, "\n")
		if prefix := id + "\ndata: [" + progress + `,{"jsonrpc":"2.0","id":7,"error":`; !strings.HasPrefix(got, prefix) || !strings.HasSuffix(got, "}}}]\n\n") {
			t.Errorf("%q, want the failure in place in the batch", got)
		}
	})
}

// What only looks like a request is handed on as it is, as often as it comes.
func TestWhatIsNoRequestPassesUnchanged(t *testing.T) {
	for _, data := range []string{
		`{"jsonrpc":"2.0","id":12,"method":"elicitation/create"`, `"id" "method"`, `[{"id":12,"method":"x"}`, `[]`, `[[` + elicitation + `]]`,
		`{"id":null,"method":"elicitation/create"}`, `{"jsonrpc":"2.0","method":"x","params":{"id":12,"method":"y"}}`,
		`{"a":` + elicitation + `}`, `\u0069`, `{"jsonrpc":"2.0","id":12,"method":"ping"}`, `{"id":12,"result":{"id":1,"method":"x"},"error":{}}`,
		`{"jsonrpc":"2.0","id":5,"result":{"id":1,"method":"x"}}`,
	} {
		for _, p := range places {
			inBubble(t, p, middleware.Config{}, func(t *testing.T, a *asker) {
				if sent, got := a.brings(elicitation, data, data); got != sent {
					t.Errorf("%s: %q, want %q", p.name, got, sent)
				}
				for range 3 {
					if sent, got := a.replays(data); got != sent {
						t.Errorf("%s, replayed: %q, want %q", p.name, got, sent)
					}
				}
			})
		}
	}
}

// Ids are compared by value, on both sides, and a number is no string.
func TestIdsWrittenOtherwise(t *testing.T) {
	for _, tc := range []struct {
		first, again string
		same         bool
	}{
		{`12`, `12.0`, true}, {`12.0`, `12`, true}, {`12`, `1.2e1`, true}, {`"12"`, `"\u00312"`, true},
		{`12`, `"12"`, false}, {`"12"`, `12`, false}, {`12`, `12.5`, false},
	} {
		inBubble(t, places[0], middleware.Config{}, func(t *testing.T, a *asker) {
			a.brings(request(tc.first, "roots/list"))
			sent, got := a.replays(request(tc.again, "roots/list"))
			want := sent
			if tc.same {
				want = blank(sent)
			}
			if got != want {
				t.Errorf("%s and then %s: %q, want %q", tc.first, tc.again, got, want)
			}
		})
	}
}
