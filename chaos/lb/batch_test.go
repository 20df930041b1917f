package lb_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/revenant-mcp/revenant/chaos/lb"
)

// burst is so much that it is read in several large pieces.
var burst = strings.Repeat(firstEvent, 300_000/len(firstEvent))

// chunk is a piece of a body as it is on the wire.
func chunk(piece string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece) }

// answerRaw answers with the bytes of wire after the headers of a chunked stream,
// and then keeps silent, or closes the connection.
func answerRaw(wire string, closes bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"+wire)
		if !closes {
			io.Copy(io.Discard, conn) // until the load balancer leaves
		}
	}
}

// What is read in large pieces is written in large pieces, but nothing of it waits
// for the upstream to send more. (net/http itself makes an event wait if the data
// of the next chunk has begun to come and stops.)
func TestNoEventWaitsForTheNext(t *testing.T) {
	for name, rest := range map[string]string{
		"silence": "", "half a size": "1",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t, lb.Config{IdleTimeout: idle}, answerRaw(chunk(burst)+strings.Repeat(chunk(firstEvent), 5000)+rest, false))
				defer n.close()
				res, err := n.client.Get("http://h/")
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				want := burst + strings.Repeat(firstEvent, 5000)
				got := make([]byte, len(want))
				if got, err := io.ReadFull(res.Body, got); err != nil {
					t.Fatalf("read %d bytes, %v, want %d", got, err, len(want))
				}
				if string(got) != want {
					t.Error("the events are not those that were sent")
				}
				n.at(t, "the last event", 0)
			})
		})
	}
}

// What came before an upstream breaks off, or says what is not HTTP, is passed
// on.
func TestWhatCameBeforeAFaultIsPassedOn(t *testing.T) {
	for name, fault := range map[string]string{"the connection's end": "", "no size": "what?\r\n", "no end of a chunk": "1\r\nx?"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t, lb.Config{}, answerRaw(chunk(burst)+chunk(firstEvent)+chunk(firstEvent)+fault, true))
				defer n.close()
				res, err := n.client.Get("http://h/")
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				want := burst + firstEvent + firstEvent
				if got, err := io.ReadAll(res.Body); strings.TrimSuffix(string(got), "x") != want || err != io.ErrUnexpectedEOF {
					t.Errorf("read %d bytes, %v, want %d, %v", len(got), err, len(want), io.ErrUnexpectedEOF)
				}
			})
		})
	}
}

// Bodies of every kind arrive to the byte, in whatever pieces they are sent.
func TestBodiesToTheByte(t *testing.T) {
	t.Parallel()
	const seed = 23
	random := rand.New(rand.NewPCG(seed, seed))
	want := make([]byte, 1<<20)
	for i := range want {
		want[i] = byte(random.Uint32())
	}
	sizes := make([]int, 0, len(want)/1000)
	for left := len(want); left > 0; left -= sizes[len(sizes)-1] {
		sizes = append(sizes, min(left, 1+random.IntN(1<<random.IntN(17))))
	}
	for _, mode := range []lb.Mode{lb.HTTP, lb.TCP} {
		balancer, client := startTCP(t, lb.Config{Mode: mode}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/length" {
				w.Header().Set("Content-Length", strconv.Itoa(len(want)))
			}
			rest := want
			for _, size := range sizes {
				w.Write(rest[:size])
				rest = rest[size:]
				if size%2 == 0 {
					http.NewResponseController(w).Flush()
				}
			}
		})
		for range 3 { // on the same connections
			for _, path := range []string{"/chunks", "/length"} {
				res, err := client.Get(balancer.URL() + path)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s %s: seed %d: read %d bytes, %v, want %d", mode, path, seed, len(got), err, len(want))
				}
			}
		}
	}
}

// stubConn has text to be read. Its end comes with the last bytes, and once.
type stubConn struct {
	net.Conn
	text string
}

func (c *stubConn) Read(p []byte) (int, error) {
	if c.text == "" {
		return 0, errors.New("read after the end")
	}
	n := copy(p, c.text)
	if c.text = c.text[n:]; c.text == "" {
		return n, io.EOF
	}
	return n, nil
}

// A read that may wait is announced, one of what is there already is not; and an
// error comes after the bytes that came with it.
func TestReadAhead(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 16<<10) // several large pieces
	conn, flushFirst := lb.NewReadAhead(&stubConn{text: text})
	announced := 0
	defer flushFirst(func() error { announced++; return nil })()
	var got bytes.Buffer
	_, err := io.CopyBuffer(struct{ io.Writer }{&got}, struct{ io.Reader }{conn}, make([]byte, 4<<10))
	if got.String() != text || err != nil {
		t.Errorf("read %d bytes, %v, want %d", got.Len(), err, len(text))
	}
	if most := len(text)/(64<<10) + 2; announced == 0 || announced > most {
		t.Errorf("%d reads announced, want at most %d for %d bytes", announced, most, len(text))
	}

	failure := errors.New("the client has left")
	defer flushFirst(func() error { return failure })()
	if _, err := conn.Read(make([]byte, 1)); err != failure {
		t.Errorf("Read() = %v, want %v", err, failure)
	}
}

// Once a response is over, its connection can be another request's already.
func TestOneRequestLeavesAnotherItsFlush(t *testing.T) {
	conn, flushFirst := lb.NewReadAhead(&stubConn{text: "next"})
	stop := flushFirst(func() error { t.Error("the first request's flush is called"); return nil })
	flushed := false
	defer flushFirst(func() error { flushed = true; return nil })()
	stop()
	if _, err := conn.Read(make([]byte, 1)); err != nil || !flushed {
		t.Errorf("Read() = %v, flushed %v, want nil, true", err, flushed)
	}
}
