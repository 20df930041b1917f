package middleware_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// The three kinds of stream that a session has.
var streams = []struct {
	name string
	open func(w *world, h http.HandlerFunc) (*http.Response, error)
}{
	{"the first GET", func(w *world, h http.HandlerFunc) (*http.Response, error) {
		w.get, w.post = h, alive
		return w.reconnect("")
	}},
	{"a call", func(w *world, h http.HandlerFunc) (*http.Response, error) {
		w.post = func(rw http.ResponseWriter, r *http.Request) {
			if w.last().rpc == "ping" {
				alive(rw, r)
				return
			}
			h(rw, r)
		}
		return w.call("tools/call")
	}},
	{"resumed", func(w *world, h http.HandlerFunc) (*http.Response, error) {
		w.get, w.post = h, alive
		return w.reconnect("c-0")
	}},
}

// onStreams runs a test in a bubble for each kind of stream. The bubble ends
// with the stream and the server.
func onStreams(t *testing.T, cfg middleware.Config, h func() http.HandlerFunc, test func(t *testing.T, w *world, resp *http.Response)) {
	for _, stream := range streams {
		t.Run(stream.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, cfg)
				defer w.close()
				resp, err := stream.open(w, h())
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				test(t, w, resp)
			})
		})
	}
}

// whole asserts that text ends where an event or a comment line ends, or the
// blank line behind it: the reference is the text of the stream itself.
func whole(t *testing.T, all, text string, ends []int) {
	t.Helper()
	if !strings.HasPrefix(all, text) {
		t.Fatalf("read %q, want a prefix of %q", text, all)
	}
	for _, end := range ends {
		if len(text) == end {
			return
		}
	}
	t.Errorf("read %q, want whole events of %q", text, all)
}

// C59: one byte in each piece from the server, in each style of line ends.
func TestNoEventIsTornWhateverThePieces(t *testing.T) {
	for name, blocks := range map[string][]string{
		"LF":                       {"event: message\ndata: {\"a\":1}\n\n", "id: 2\n\n", "data\n\n"},
		"CR LF":                    {"event: message\r\ndata: {\"a\":1}\r\n\r\n", "id: 2\r\n\r\n", "data\r\n\r\n"},
		"CR":                       {"event: message\rdata: {\"a\":1}\r\r", "id: 2\r\r", "data\r\r"},
		"a BOM":                    {"\uFEFF", "data: \uFEFF\n\n"},
		"mixed":                    {"data: x\r\ndata: y\n\r\n", "data: z\r\n\n", ": c\r\n"},
		"comments within an event": {": before\n", "data: 1\n: within\ndata: 2\n\n", ": after\n"},
	} {
		t.Run(name, func(t *testing.T) {
			all := strings.Join(blocks, "")
			// Where something that has ended ends; the second half of a CR LF
			// goes on its own.
			var ends []int
			for at, i := 0, 0; i < len(blocks); i++ {
				at += len(blocks[i])
				ends = append(ends, at)
				if strings.HasSuffix(blocks[i], "\r\n") {
					ends = append(ends, at-1)
				}
			}
			ends = append(ends, 0)
			var f *feed
			onStreams(t, middleware.Config{}, func() http.HandlerFunc { f = newFeed(); return f.ServeHTTP }, func(t *testing.T, _ *world, resp *http.Response) {
				r := follow(resp, 64)
				for i := range len(all) {
					f.pieces <- all[i : i+1]
					synctest.Wait()
					whole(t, all, r.text(), ends)
				}
				close(f.pieces)
				<-r.done
				if got := r.text(); got != all || r.ended() != io.EOF {
					t.Errorf("stream = %q, %v, want %q, EOF", got, r.ended(), all)
				}
			})
		})
	}
}

// Keepalives are for whoever waits: they pass while the stream stays open, also
// before any event, and before the rest of an event that has begun with them.
func TestCommentsPassAtOnce(t *testing.T) {
	var f *feed
	onStreams(t, middleware.Config{}, func() http.HandlerFunc { f = newFeed(); return f.ServeHTTP }, func(t *testing.T, _ *world, resp *http.Response) {
		r := follow(resp, 64)
		want := ""
		for _, step := range []struct{ send, pass string }{
			{": first\n", ": first\n"},
			{":\n\n", ":\n\n"},
			{"data: 1\n\n", "data: 1\n\n"},
			{": second\r\n", ": second\r\n"},
			{": third", ""},
			{"\n", ": third\n"},
			{": fourth\nid: 7\ndata: 2\n", ": fourth\n"},
			{": within\n", ""},
			{"data: 3\n\n", "id: 7\ndata: 2\n: within\ndata: 3\n\n"},
			{"\n\n", "\n\n"},
			{": last\r", ": last\r"},
			{"\n", "\n"},
		} {
			f.pieces <- step.send
			want += step.pass
			synctest.Wait()
			if got := r.text(); got != want {
				t.Fatalf("after %q: stream = %q, want %q", step.send, got, want)
			}
		}
		close(f.pieces)
		<-r.done
	})
}

// C38: an upstream that ends in the middle of an event is no end of the stream,
// however cleanly its connection was closed, and what was torn is nowhere.
func TestAnUpstreamThatEndsInsideAnEvent(t *testing.T) {
	for _, torn := range []string{"d", "data: x", "data: x\n", "id: 9\r\ndata: y\r\n", "id: 9\ndata: y\n: comment\n", ": c\nretry: 1", "data: x\r", "\uFEFF"[:2]} {
		for _, before := range []string{"", "id: 8\ndata: {}\n\n"} {
			if strings.HasPrefix(torn, "\uFEFF"[:1]) && before != "" {
				continue
			}
			for _, broken := range []bool{false, true} {
				t.Run(fmt.Sprintf("%q after %q, broken=%v", torn, before, broken), func(t *testing.T) {
					var f *feed
					onStreams(t, middleware.Config{}, func() http.HandlerFunc { f = newFeed(); return f.ServeHTTP }, func(t *testing.T, _ *world, resp *http.Response) {
						r := follow(resp, 64)
						f.pieces <- before + torn
						synctest.Wait()
						if broken {
							close(f.broken)
						} else {
							close(f.pieces)
						}
						<-r.done
						want := before
						if strings.HasPrefix(torn, ":") {
							want += ": c\n" // which was whole
						}
						if got := r.text(); got != want {
							t.Errorf("stream = %q, want %q", got, want)
						}
						if err := r.ended(); err == io.EOF || !broken && err != io.ErrUnexpectedEOF {
							t.Errorf("Read = %v, want %v", err, io.ErrUnexpectedEOF)
						}
						if n, err := resp.Body.Read(make([]byte, 9)); n != 0 || err == nil || err == io.EOF {
							t.Errorf("Read = %d, %v, want the error again", n, err)
						}
					})
				})
			}
		}
	}
}

// The same, where the end has come before the verdict.
func TestAReplayThatEndsInsideAnEvent(t *testing.T) {
	for _, broken := range []bool{false, true} {
		t.Run(fmt.Sprintf("broken=%v", broken), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				f := newFeed()
				f.first = replayed + "id: 10\ndata: cut"
				probes := &answerable{make(chan http.HandlerFunc)}
				w.get, w.post = f.ServeHTTP, probes.ServeHTTP
				o := send(w.transport, w.request(t.Context(), "GET", "7", ""))
				synctest.Wait()
				if broken {
					close(f.broken)
				} else {
					close(f.pieces)
				}
				synctest.Wait()
				probes.answers <- alive
				<-o.done
				if o.err != nil {
					t.Fatal(o.err)
				}
				text, err := io.ReadAll(o.resp.Body)
				if string(text) != replayed {
					t.Errorf("stream = %q, want %q", text, replayed)
				}
				if err == nil || !broken && err != io.ErrUnexpectedEOF {
					t.Errorf("Read = %v, want %v", err, io.ErrUnexpectedEOF)
				}
				o.resp.Body.Close()
			})
		})
	}
}

// Between events the end is what the connection makes of it.
func TestAnUpstreamThatEndsBetweenEvents(t *testing.T) {
	for _, before := range []string{"", "data: 1\n\n", ": comment\n", "data: 1\r\r", "data: 1\n\n: c", "\uFEFF"} {
		for _, broken := range []bool{false, true} {
			t.Run(fmt.Sprintf("after %q, broken=%v", before, broken), func(t *testing.T) {
				var f *feed
				onStreams(t, middleware.Config{}, func() http.HandlerFunc { f = newFeed(); return f.ServeHTTP }, func(t *testing.T, _ *world, resp *http.Response) {
					r := follow(resp, 64)
					f.pieces <- before
					synctest.Wait()
					if broken {
						close(f.broken)
					} else {
						close(f.pieces)
					}
					<-r.done
					if err := r.ended(); (err == io.EOF) == broken {
						t.Errorf("Read = %v, want EOF: %v", err, !broken)
					}
					want := strings.TrimSuffix(before, ": c")
					if got := strings.TrimSuffix(r.text(), ": c"); got != want {
						t.Errorf("stream = %q, want %q", got, want)
					}
				})
			})
		}
	}
}

// Nothing is suppressed, so the bytes are equal, to the last one (I4).
func TestAnUnfinishedCommentAtTheEndIsNotLost(t *testing.T) {
	const text = "data: 1\n\n: bye"
	onStreams(t, middleware.Config{}, func() http.HandlerFunc { return sseAnswer(text) }, func(t *testing.T, _ *world, resp *http.Response) {
		if got := read(t, resp); got != text {
			t.Errorf("stream = %q, want %q", got, text)
		}
	})
}

// content is the text of a random stream: events and comments in all spellings
// that the decoder's specification allows, whole at its end.
func content(r *rand.Rand, blocks int) string {
	var b strings.Builder
	line := func(s string) {
		b.WriteString(s)
		b.WriteString([]string{"\n", "\r\n", "\r"}[r.IntN(3)])
	}
	words := func(most int) string {
		s := make([]rune, r.IntN(most+1))
		for i := range s {
			s[i] = []rune("abc :{}\"\t\u00e9\uFEFF\x00\\,0")[r.IntN(15)]
		}
		return string(s)
	}
	if r.IntN(2) == 0 {
		b.WriteString("\uFEFF")
	}
	for range blocks {
		switch r.IntN(6) {
		case 0:
			line(":" + words(30))
			if r.IntN(2) == 0 {
				line("")
			}
		case 1:
			line("")
		default:
			for range 1 + r.IntN(5) {
				switch r.IntN(8) {
				case 0:
					line("id: " + words(12))
				case 1:
					line([]string{"id", "id:", "data", "data:", "event", "retry:x"}[r.IntN(6)])
				case 2:
					line(fmt.Sprint("retry: ", r.IntN(99999)))
				case 3:
					line("unknown" + words(9))
				case 4:
					line(": within " + words(20))
				case 5:
					line("event:" + words(9))
				default:
					line("data: " + words([]int{5, 80, 3000}[r.IntN(3)]))
				}
			}
			line("data:")
			b.WriteString([]string{"\n\n", "\r\n\r\n", "\r\r"}[r.IntN(3)])
		}
	}
	// An LF here cannot be the second half of anything.
	b.WriteString("data: end\n\n")
	return b.String()
}

// cut writes a text in random pieces.
func cut(r *rand.Rand, text string) http.HandlerFunc {
	var pieces []string
	for most := 1 + r.IntN(5000); len(text) > 0; {
		n := min(1+r.IntN(most), len(text))
		pieces = append(pieces, text[:n])
		text = text[n:]
	}
	return sseAnswer(pieces...)
}

func TestAReleasedStreamIsByteIdentical(t *testing.T) {
	for seed := range uint64(25) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 59))
			text := content(r, 120)
			cfg := middleware.Config{}
			switch seed % 5 {
			case 1:
				cfg.MaxHeldBytes = 256 // most of the replay is read after the verdict
			case 2:
				cfg.MaxHeldBytes = 5000
			case 3:
				cfg.LivenessLease = time.Hour // another way through
			}
			onStreams(t, cfg, func() http.HandlerFunc { return cut(r, text) }, func(t *testing.T, w *world, resp *http.Response) {
				var got bytes.Buffer
				for {
					p := make([]byte, 1+r.IntN([]int{1, 7, 100, 9000}[r.IntN(4)]))
					n, err := resp.Body.Read(p)
					got.Write(p[:n])
					if err == io.EOF {
						break
					}
					if err != nil {
						t.Fatalf("Read = %v after %d of %d bytes", err, got.Len(), len(text))
					}
				}
				if got.String() != text {
					at := 0
					for at < min(got.Len(), len(text)) && got.Bytes()[at] == text[at] {
						at++
					}
					t.Errorf("stream differs at byte %d: %.60q, want %.60q", at, got.String()[at:], text[at:])
				}
			})
		})
	}
}

// A reader of single bytes gets them all, and waits for whole events too.
func TestAReaderOfSingleBytes(t *testing.T) {
	text := strings.Repeat(": c\n"+replayed, 20)
	var f *feed
	onStreams(t, middleware.Config{}, func() http.HandlerFunc { f = newFeed(); return f.ServeHTTP }, func(t *testing.T, _ *world, resp *http.Response) {
		r := follow(resp, 1)
		f.pieces <- text + "id: 1\ndata: to"
		synctest.Wait()
		if got := r.text(); got != text {
			t.Errorf("stream = %q, want %q", got, text)
		}
		f.pieces <- "rn\n\n"
		close(f.pieces)
		<-r.done
		if got, want := r.text(), text+"id: 1\ndata: torn\n\n"; got != want || r.ended() != io.EOF {
			t.Errorf("stream = %q, %v, want %q, EOF", got, r.ended(), want)
		}
	})
}

// C60: an event of 200 KiB in one line, larger than any buffer on the way.
func TestALargeEventPasses(t *testing.T) {
	large := "id: big\ndata: " + strings.Repeat("0123456789abcdef", 200<<10/16) + "\n\n"
	for _, size := range []int{1 << 10, 32 << 10, 1 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			text := replayed + large + replayed
			onStreams(t, middleware.Config{MaxHeldBytes: 64 << 10}, func() http.HandlerFunc { return sseAnswer(text) }, func(t *testing.T, _ *world, resp *http.Response) {
				r := follow(resp, size)
				<-r.done
				if got := r.text(); got != text || r.ended() != io.EOF {
					t.Errorf("stream has %d bytes, %v, want %d, EOF", len(got), r.ended(), len(text))
				}
			})
		})
	}
}

// A Read of nothing says nothing, as io.Reader has it.
func TestAReadOfNothing(t *testing.T) {
	onStreams(t, middleware.Config{}, func() http.HandlerFunc { return openSSE() }, func(t *testing.T, _ *world, resp *http.Response) {
		if n, err := resp.Body.Read(nil); n != 0 || err != nil {
			t.Errorf("Read(nil) = %d, %v, want 0, nil", n, err)
		}
	})
}

// A stream that was compressed on its way cannot be looked at, so a replay of
// one fails closed. C45.
func TestAnEncodedReplayIsNotReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.post = alive
		w.get = func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Encoding", "br")
			sseAnswer("\x1b\x00\x00 not what it seems")(rw, r)
		}
		resp, text := w.spin("c-45")
		if !errors.Is(middleware.ErrorFrom(resp), middleware.ErrLivenessUnknown) || strings.Contains(text, "seems") {
			t.Errorf("answer is %q, %v, want %v and nothing of the replay", text, middleware.ErrorFrom(resp), middleware.ErrLivenessUnknown)
		}
	})
}
