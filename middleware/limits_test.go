package middleware_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/revenant-mcp/revenant/middleware"
)

// spout is a server that writes a stream for as long as it can and counts the
// bytes that it has managed to write.
type spout struct {
	next    func(i int) string // "" ends the stream
	written atomic.Int64
	ended   atomic.Bool
}

func (s *spout) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	defer s.ended.Store(true)
	startSSE(rw)
	for i := 0; ; i++ {
		piece := s.next(i)
		if piece == "" || s.written.Load() > enough {
			return
		}
		_, err := io.WriteString(rw, piece)
		if err == nil {
			err = http.NewResponseController(rw).Flush()
		}
		if err != nil {
			return
		}
		s.written.Add(int64(len(piece)))
	}
}

// enough ends what has no end, where nothing else does: a test is to fail, not
// to fill the memory.
const enough = 8 << 20

// slack is what may lie between the server's Write and the middleware: the
// buffers of net/http on both sides and one read of the middleware's own.
const slack = 24 << 10

// C62: what is over the limit is left on the connection until there is a
// verdict, and not dropped.
func TestHeldBytesOverTheLimitStopTheReading(t *testing.T) {
	for _, limit := range []int{256, 10_000, 100 << 10, 0} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{MaxHeldBytes: limit})
				defer w.close()
				bytes := limit
				if bytes == 0 {
					bytes = middleware.DefaultMaxHeldBytes
				}
				events := 3*(bytes+slack)/1000 + 1
				event := func(i int) string {
					if i == events {
						return ""
					}
					return fmt.Sprintf("id: %d\ndata: %s\n\n", i, strings.Repeat("h", 980))
				}
				server := &spout{next: event}
				probes := &answerable{make(chan http.HandlerFunc)}
				w.get, w.post = server.ServeHTTP, probes.ServeHTTP
				o := send(w.transport, w.request(t.Context(), "GET", "c-0", ""))
				time.Sleep(3 * time.Second)
				synctest.Wait()
				if got := server.written.Load(); got > int64(bytes+slack) || got < int64(min(bytes, 4<<10)) {
					t.Errorf("the server has written %d bytes before the verdict, want about %d", got, bytes)
				}
				if o.returned() || server.ended.Load() {
					t.Fatalf("RoundTrip has returned %v, %v without a verdict", o.resp, o.err)
				}
				probes.answers <- alive
				<-o.done
				if o.err != nil {
					t.Fatal(o.err)
				}
				var want strings.Builder
				for i := range events {
					want.WriteString(event(i))
				}
				if got := read(t, o.resp); got != want.String() {
					t.Errorf("stream has %d bytes, want %d, and the same", len(got), want.Len())
				}
				if e := w.event(middleware.Released); e.Bytes > int64(bytes) {
					t.Errorf("%d bytes were held, want at most %d", e.Bytes, bytes)
				}
			})
		})
	}
}

// C62: an event without an end is bounded before the verdict by MaxHeldBytes
// and after it by MaxEventBytes.
func TestAnEndlessEventIsBounded(t *testing.T) {
	const held, event = 16 << 10, 128 << 10
	for _, verdict := range []string{"live", "dead", "none"} {
		t.Run(verdict, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{MaxHeldBytes: held, MaxEventBytes: event})
				defer w.close()
				server := &spout{next: func(i int) string {
					if i == 0 {
						return "id: 1\ndata: whole\n\ndata: "
					}
					return strings.Repeat("e", 512)
				}}
				probes := &answerable{make(chan http.HandlerFunc)}
				w.get, w.post = server.ServeHTTP, probes.ServeHTTP
				start := time.Now()
				o := send(w.transport, w.request(t.Context(), "GET", "c-0", ""))
				time.Sleep(3 * time.Second)
				synctest.Wait()
				if got := server.written.Load(); got > held+slack {
					t.Errorf("the server has written %d bytes before the verdict, want about %d", got, held)
				}
				switch verdict {
				case "live":
					probes.answers <- alive
					<-o.done
					text, err := io.ReadAll(o.resp.Body)
					if string(text) != "id: 1\ndata: whole\n\n" || !errors.Is(err, middleware.ErrReplayTooLarge) {
						t.Errorf("stream = %.40q, %v, want the whole event and %v", text, err, middleware.ErrReplayTooLarge)
					}
					o.resp.Body.Close()
				case "dead":
					probes.answers <- gone
					<-o.done
					if e := problem(t, o.resp, o.err); e.QuarantinedEvents != 1 {
						t.Errorf("%d events quarantined, want the whole one", e.QuarantinedEvents)
					}
				default:
					<-o.done
					if took := time.Since(start); took > middleware.DefaultProbeBudget+time.Second {
						t.Errorf("RoundTrip took %v, want within %v", took, middleware.DefaultProbeBudget)
					}
					if err := middleware.ErrorFrom(o.resp); !errors.Is(err, middleware.ErrLivenessUnknown) {
						t.Errorf("ErrorFrom = %v, want %v", err, middleware.ErrLivenessUnknown)
					}
					read(t, o.resp)
				}
				synctest.Wait()
				if got := server.written.Load(); got > event+slack || !server.ended.Load() {
					t.Errorf("the server has written %d bytes, ended %v, want about %d and the connection closed", got, server.ended.Load(), event)
				}
			})
		})
	}
}

// sized is an event of exactly n bytes.
func sized(n int) string {
	return "data: " + strings.Repeat("s", n-len("data: \n\n")) + "\n\n"
}

// C60: the limit is exact, and what came before the event is delivered.
func TestAnEventOverTheLimitFailsClosed(t *testing.T) {
	for _, most := range []int{256, 5000, 70 << 10} {
		for _, over := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d, over=%v", most, over), func(t *testing.T) {
				last := sized(most)
				if over {
					last = sized(most + 1)
				}
				onStreams(t, middleware.Config{MaxEventBytes: most}, func() http.HandlerFunc {
					return sseAnswer(block(1)+": c\n"+block(2), last, block(3))
				}, func(t *testing.T, w *world, resp *http.Response) {
					text, err := io.ReadAll(resp.Body)
					want := block(1) + ": c\n" + block(2)
					if !over {
						want += last + block(3)
					}
					if string(text) != want {
						t.Errorf("stream = %.80q of %d bytes, want %.80q of %d", text, len(text), want, len(want))
					}
					if !over {
						if err != nil {
							t.Errorf("Read = %v, want EOF", err)
						}
						return
					}
					if !errors.Is(err, middleware.ErrReplayTooLarge) {
						t.Fatalf("Read = %v, want %v", err, middleware.ErrReplayTooLarge)
					}
					if e := typed(t, err); e.SessionID != sid || e.Phase != middleware.PhaseReplay || e.Verdict != middleware.Ambiguous {
						t.Errorf("Read = %#v, want phase replay", e)
					}
					if err := w.transport.SessionErr(sid); err != nil {
						t.Errorf("SessionErr = %v, want nil: it may be resumed", err)
					}
				})
			})
		}
	}
}

// tooLarge reconnects and reads up to the event that is too large.
func (w *world) tooLarge(cursor string) error {
	w.t.Helper()
	resp, err := w.reconnect(cursor)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	if !errors.Is(err, middleware.ErrReplayTooLarge) {
		w.t.Fatalf("Read = %v, want %v", err, middleware.ErrReplayTooLarge)
	}
	return err
}

// Reconnecting would meet the same event for ever.
func TestTheSameEventOverTheLimitTwiceIsTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{MaxEventBytes: 1000})
		defer w.close()
		w.post, w.get = alive, sseAnswer(block(1), sized(1001))
		w.tooLarge("c-0")
		w.mustCall("tools/list", 200)
		w.get = openSSE(sized(1001)) // exclusive replay: after e1 comes the event
		w.tooLarge("e1")
		e := typed(t, w.transport.SessionErr(sid))
		if !errors.Is(e, middleware.ErrReplayTooLarge) || e.Verdict != middleware.Ambiguous {
			t.Errorf("SessionErr = %#v, want %v", e, middleware.ErrReplayTooLarge)
		}
		if n := w.kinds(middleware.SessionDead); n != 1 {
			t.Errorf("session dead was observed %d times, want once", n)
		}
		before := len(w.requests())
		resp, err := w.reconnect("e1")
		if e := problem(t, resp, err); !errors.Is(e, middleware.ErrReplayTooLarge) || errors.Is(e, middleware.ErrSessionDead) {
			t.Errorf("error is %v, want %v", e, middleware.ErrReplayTooLarge)
		}
		if got := len(w.requests()); got != before {
			t.Errorf("%d more requests on the wire, want none", got-before)
		}
	})
}

func TestAnotherEventOverTheLimitIsNotTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{MaxEventBytes: 1000})
		defer w.close()
		w.post = alive
		cursor := "c-0"
		for i := range 5 { // of one stream, which gets on
			w.get = sseAnswer(block(i), sized(1001))
			w.tooLarge(cursor)
			cursor = fmt.Sprint("e", i)
		}
		for i := range 5 { // of others
			w.get = sseAnswer(fmt.Sprintf("id: f%d\ndata: x\n\n", i), sized(1001))
			w.tooLarge(fmt.Sprint("d-", i))
		}
		if err := w.transport.SessionErr(sid); err != nil {
			t.Errorf("SessionErr = %v, want nil", err)
		}
	})
}

// A second Read of one body is not a second event.
func TestReadingAgainAfterAnEventOverTheLimit(t *testing.T) {
	onStreams(t, middleware.Config{MaxEventBytes: 1000}, func() http.HandlerFunc { return sseAnswer(block(1), sized(1001)) }, func(t *testing.T, w *world, resp *http.Response) {
		_, _ = io.ReadAll(resp.Body)
		for range 3 {
			if n, err := resp.Body.Read(make([]byte, 64)); n != 0 || !errors.Is(err, middleware.ErrReplayTooLarge) {
				t.Errorf("Read = %d, %v, want %v again", n, err, middleware.ErrReplayTooLarge)
			}
		}
		if err := w.transport.SessionErr(sid); err != nil {
			t.Errorf("SessionErr = %v, want nil: the event has come once", err)
		}
	})
}

// The answers to two calls are two events, where a server gives no ids, or the
// same one to the start of every stream. C24.
func TestTheAnswersOfTwoCallsOverTheLimitAreNotTheSameEvent(t *testing.T) {
	for _, first := range []string{"", "id: 0\ndata:\n\n"} {
		t.Run(fmt.Sprintf("%q", first), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{MaxEventBytes: 1000})
				defer w.close()
				w.post = sseAnswer(first, sized(1001))
				for range 3 {
					resp, err := w.call("tools/huge")
					if err != nil || resp.StatusCode != 200 {
						t.Fatalf("call = %v, %v, want a stream", resp, err)
					}
					if _, err := io.ReadAll(resp.Body); !errors.Is(err, middleware.ErrReplayTooLarge) {
						t.Errorf("Read = %v, want %v", err, middleware.ErrReplayTooLarge)
					}
					resp.Body.Close()
				}
				if err := w.transport.SessionErr(sid); err != nil {
					t.Errorf("SessionErr = %v, want nil", err)
				}
			})
		})
	}
}

// But a call's answer that comes again when its stream is resumed is.
func TestTheAnswerOfACallOverTheLimitTwiceIsTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{MaxEventBytes: 1000})
		defer w.close()
		w.post = sseAnswer("id: p7\ndata:\n\n", sized(1001))
		resp, err := w.call("tools/huge")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadAll(resp.Body)
		resp.Body.Close()
		w.post, w.get = alive, sseAnswer(sized(1001))
		w.tooLarge("p7")
		if err := w.transport.SessionErr(sid); !errors.Is(err, middleware.ErrReplayTooLarge) {
			t.Errorf("SessionErr = %v, want %v", err, middleware.ErrReplayTooLarge)
		}
	})
}

// Ten thousand events leave a short record and an exact count.
func TestRecordsOfQuarantinedEventsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{MaxHeldBytes: 4 << 20})
		defer w.close()
		const events = 10_000
		var replay strings.Builder
		for i := range events {
			fmt.Fprintf(&replay, "id: q%d\ndata: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"sampling/createMessage\"}\n\n", i, i)
		}
		probes := &answerable{make(chan http.HandlerFunc)}
		w.get, w.post = openSSE(replay.String()), probes.ServeHTTP
		o := send(w.transport, w.request(t.Context(), "GET", "c-0", ""))
		synctest.Wait()
		probes.answers <- gone
		<-o.done
		e := problem(t, o.resp, o.err)
		if e.QuarantinedEvents != events || len(e.Quarantined) != middleware.MaxQuarantineRecords {
			t.Errorf("%d events quarantined, %d records, want %d and %d", e.QuarantinedEvents, len(e.Quarantined), events, middleware.MaxQuarantineRecords)
		}
		for i, q := range e.Quarantined {
			want := middleware.QuarantinedEvent{EventID: fmt.Sprint("q", i), Method: "sampling/createMessage", RequestID: fmt.Sprint(i), Bytes: q.Bytes}
			if q != want || q.Bytes < 60 {
				t.Errorf("Quarantined[%d] = %+v, want %+v", i, q, want)
			}
		}
		if q := w.event(middleware.Quarantined); q.Events != events || q.Bytes != int64(replay.Len()) {
			t.Errorf("quarantined: %d events of %d bytes, want %d of %d", q.Events, q.Bytes, events, replay.Len())
		}
	})
}

// The records of several reconnects together stay as few.
func TestRecordsOfSeveralReconnectsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		const streams, events = 5, 30
		var replay strings.Builder
		for i := range events {
			replay.WriteString(block(i))
		}
		probes := &answerable{make(chan http.HandlerFunc)}
		w.get = after(time.Millisecond, openSSE(replay.String()))
		w.post = probes.ServeHTTP
		var all []*outcome
		for i := range streams {
			all = append(all, send(w.transport, w.request(t.Context(), "GET", fmt.Sprint("c-", i), "")))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		probes.answers <- gone
		for _, o := range all {
			<-o.done
			if e := problem(t, o.resp, o.err); e.QuarantinedEvents != events || len(e.Quarantined) != events {
				t.Errorf("%d events quarantined, %d records, want %d", e.QuarantinedEvents, len(e.Quarantined), events)
			}
		}
		e := typed(t, w.transport.SessionErr(sid))
		if e.QuarantinedEvents != streams*events || len(e.Quarantined) != middleware.MaxQuarantineRecords {
			t.Errorf("SessionErr has %d events and %d records, want %d and %d", e.QuarantinedEvents, len(e.Quarantined), streams*events, middleware.MaxQuarantineRecords)
		}
		if n := w.count("POST ping"); n != 1 {
			t.Errorf("%d probes, want 1", n)
		}
	})
}

// What a record keeps is short, whatever the server has written.
func TestRecordsOfQuarantinedEventsAreClipped(t *testing.T) {
	mega := strings.Repeat("\u00e9m", 400_000) // 1.2 MB, and no boundary where one would cut
	for name, event := range map[string]string{
		"id":         "id: " + mega + "\ndata: {}\n\n",
		"method":     "id: x\ndata: {\"method\":\"" + mega + "\",\"id\":1}\n\n",
		"request id": "id: x\ndata: {\"method\":\"m\",\"id\":\"" + mega + "\"}\n\n",
		"number":     "id: x\ndata: {\"method\":\"m\",\"id\":" + strings.Repeat("9", 1_000_000) + "}\n\n",
		"nested id":  "id: x\ndata: {\"method\":\"m\",\"id\":[" + strings.Repeat("[],", 300_000) + "1]}\n\n",
		"not UTF-8":  "id: \xff\xfe\ndata: {\"method\":\"m\xff\",\"id\":\"\xfe\"}\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{MaxHeldBytes: 4 << 20})
				defer w.close()
				probes := &answerable{make(chan http.HandlerFunc)}
				w.get, w.post = openSSE(event), probes.ServeHTTP
				o := send(w.transport, w.request(t.Context(), "GET", "c-0", ""))
				synctest.Wait()
				probes.answers <- gone
				<-o.done
				e := problem(t, o.resp, o.err)
				if len(e.Quarantined) != 1 || e.Quarantined[0].Bytes != len(event) {
					t.Fatalf("%d records, want one of %d bytes", len(e.Quarantined), len(event))
				}
				q := e.Quarantined[0]
				for _, s := range []string{q.EventID, q.Method, q.RequestID} {
					if len(s) > 256 || !utf8.ValidString(s) {
						t.Errorf("a record keeps %.40q… of %d bytes, want a short piece of UTF-8", s, len(s))
					}
				}
				if q.EventID == "" {
					t.Errorf("record is %+v, want the beginning of the id", q)
				}
			})
		})
	}
}

// So does a fence of the headers that decided (I8).
func TestAFenceKeepsLittleOfTheAnswer(t *testing.T) {
	long := "text/" + strings.Repeat("x", 200_000)
	for name, do := range map[string]func(*world) (*http.Response, error){
		"a call":      func(w *world) (*http.Response, error) { return w.call("tools/list") },
		"a reconnect": func(w *world) (*http.Response, error) { return w.reconnect("c-0") },
		"the probe": func(w *world) (*http.Response, error) {
			w.get = openSSE(block(1))
			return w.reconnect("c-0")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.get, w.post = status(404, long, ""), status(404, long, "")
				resp, err := do(w)
				problem(t, resp, err)
				e := typed(t, w.transport.SessionErr(sid))
				if n := len(e.ContentType) + len(e.Detail); n > 4096 {
					t.Errorf("the fence keeps %d bytes of the answer, want a few", n)
				}
			})
		})
	}
}

// What Retry-After can say, and how long to wait is left of it: within the
// budget before the next attempt, and told to the client after it.
func TestAbsurdRetryAfterDoesNotHold(t *testing.T) {
	for _, v := range []string{
		"", "0", "-5", "-99999999999999999999", "1e9", "NaN", "0x10", "1.5", " ", "soon",
		"14.", "2147483647", "2147483648", "4294967297", "9223372036854775807", "99999999999999999999999",
		"Fri, 31 Dec 9999 23:59:59 GMT", "Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 32 Dec 9999 23:59:59 GMT",
	} {
		for _, from := range []string{"the reconnect", "the probe"} {
			t.Run(fmt.Sprintf("%q from %s", v, from), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, middleware.Config{})
					defer w.close()
					busy := func(rw http.ResponseWriter, _ *http.Request) {
						rw.Header().Set("Retry-After", v)
						rw.WriteHeader(503)
					}
					w.get, w.post = openSSE(block(1)), busy
					if from == "the reconnect" {
						w.get = busy
					}
					start := time.Now()
					resp, text := w.spin("c-0")
					if took := time.Since(start); took > middleware.DefaultProbeBudget+time.Second {
						t.Errorf("RoundTrip took %v, want within %v", took, middleware.DefaultProbeBudget)
					} else if far := v == "2147483647" || strings.Contains(v, "31 Dec 9999"); far && took > time.Second {
						t.Errorf("RoundTrip took %v, want it not to wait where there is no time for another attempt", took)
					}
					if err := middleware.ErrorFrom(resp); !errors.Is(err, middleware.ErrLivenessUnknown) {
						t.Errorf("ErrorFrom = %v, want %v", err, middleware.ErrLivenessUnknown)
					}
					retry, err := strconv.Atoi(between(text, "retry: ", "\n"))
					if err != nil || retry < 1 || retry > 300_000 {
						t.Errorf("the client is told %q, want a retry of up to five minutes", text)
					}
					if n := len(w.requests()); n > 50 {
						t.Errorf("%d requests on the wire, want a few", n)
					}
				})
			})
		}
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	for _, from := range []string{"GET c-0", "POST ping"} {
		for _, date := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, date=%v", from, date), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, middleware.Config{})
					defer w.close()
					busy := func(rw http.ResponseWriter, _ *http.Request) {
						v := "6"
						if date {
							v = time.Now().Add(6 * time.Second).UTC().Format(http.TimeFormat)
						}
						rw.Header().Set("Retry-After", v)
						rw.WriteHeader(429)
					}
					first := func(then http.HandlerFunc) http.HandlerFunc {
						return func(rw http.ResponseWriter, r *http.Request) {
							if w.count(from) == 1 {
								busy(rw, r)
								return
							}
							then(rw, r)
						}
					}
					w.get, w.post = sseAnswer(block(1)), alive
					if from == "GET c-0" {
						w.get = first(w.get)
					} else {
						w.post = first(w.post)
					}
					if _, text := w.spin("c-0"); text != block(1) {
						t.Errorf("replay = %q, want %q", text, block(1))
					}
					if gaps := w.gaps(from); len(gaps) != 1 || gaps[0] < 6*time.Second || gaps[0] > 7*time.Second {
						t.Errorf("%s came again after %v, want once after 6s", from, gaps)
					}
				})
			})
		}
	}
}

// The probe's own answer is read no further than MaxHeldBytes.
func TestAnEndlessAnswerToTheProbeIsBounded(t *testing.T) {
	for _, contentType := range []string{"application/json", "text/event-stream"} {
		t.Run(contentType, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{MaxHeldBytes: 32 << 10})
				defer w.close()
				var written atomic.Int64
				w.get = openSSE(block(1))
				w.post = func(rw http.ResponseWriter, _ *http.Request) {
					rw.Header().Set("Content-Type", contentType)
					for written.Load() < enough {
						n, err := io.WriteString(rw, strings.Repeat("data: {\"x\":1}\n\n", 64))
						if err != nil {
							return
						}
						written.Add(int64(n))
					}
				}
				start := time.Now()
				resp, text := w.spin("c-0")
				if err := middleware.ErrorFrom(resp); !errors.Is(err, middleware.ErrLivenessUnknown) || strings.Contains(text, "e1") {
					t.Errorf("answer is %q, %v, want %v and nothing held", text, err, middleware.ErrLivenessUnknown)
				}
				synctest.Wait()
				if took := time.Since(start); took > middleware.DefaultProbeBudget+time.Second {
					t.Errorf("RoundTrip took %v, want within %v", took, middleware.DefaultProbeBudget)
				}
				// What gives the connection back may read as much again.
				if got := written.Load(); got > 32<<10+64<<10+slack {
					t.Errorf("the server has written %d bytes, want about %d", got, 32<<10)
				}
			})
		})
	}
}
