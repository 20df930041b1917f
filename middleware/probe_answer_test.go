package middleware_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

const (
	asJSON = "application/json"
	asSSE  = "text/event-stream"
)

func jsonAnswer(message string) http.HandlerFunc { return rpcAnswer(asJSON, message) }

// sseMessage answers a probe with one message on an event stream.
func sseMessage(message string) http.HandlerFunc {
	return rpcAnswer(asSSE, "event: message\nid: 3-1\ndata: "+message+"\n\n")
}

// staysOpen is an event stream that the server does not end after the answer.
func staysOpen(message string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		sseMessage(message)(rw, r)
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
	}
}

// breaksOffAtOnce breaks the connection without an answer.
func breaksOffAtOnce(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// endless answers with part for ever, until nobody reads any more or far more
// has been read than anybody should, and counts the bytes.
func endless(contentType, part string, sent *atomic.Int64) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", contentType)
		for r.Context().Err() == nil && sent.Load() < 1<<20 {
			n, err := io.WriteString(rw, part)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	}
}

// probeOutcome is what one kind of answer to a probe has to lead to.
type probeOutcome struct {
	cfg    middleware.Config
	answer http.HandlerFunc
	want   middleware.Verdict
	probes int // attempts; 0: more than one
	least  time.Duration
	most   time.Duration // 0: least and a moment
}

const (
	live      = middleware.Live
	dead      = middleware.Dead
	ambiguous = middleware.Ambiguous

	anyNumber = -1
)

func checkProbe(t *testing.T, tc probeOutcome) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, tc.cfg)
		defer w.close()
		w.get, w.post = sseAnswer(replayed), tc.answer
		start := time.Now()
		resp := w.resume(t, "7")
		took := time.Since(start)
		synctest.Wait()
		probes := count(w.requests(), "POST ping")
		if most := max(tc.least+moment, tc.most); took < tc.least || took > most {
			t.Errorf("the outcome came after %v, want %v to %v", took, tc.least, most)
		}
		if probes != tc.probes && tc.probes != anyNumber && (tc.probes != 0 || probes < 2) {
			t.Errorf("%d probes, want %d (0: more than one)", probes, tc.probes)
		}
		switch tc.want {
		case live:
			isUntouched(t, resp, 200, replayed)
		case dead:
			deadErr(t, isTerminal(t, resp))
			deadErr(t, w.transport.SessionErr(sid))
			return
		default:
			if e, _ := isAmbiguous(t, resp, "7"); e.Phase != middleware.PhaseProbe {
				t.Errorf("phase = %q, want probe", e.Phase)
			}
		}
		if err := w.transport.SessionErr(sid); err != nil {
			t.Errorf("SessionErr(%q) = %v, want nil", sid, err)
		}
	})
}

// C12, C13, C15, C20: 200 is not sufficient, and nothing else is either.
func TestProbeMessages(t *testing.T) {
	for name, tc := range map[string]struct {
		message string
		want    middleware.Verdict
	}{
		"result":                   {`{"jsonrpc":"2.0","id":$id,"result":{}}`, live},
		"result, filled":           {`{"result":{"protocol":"x","_meta":{"id":"y"}},"id":$id,"jsonrpc":"2.0"}`, live},
		"result null":              {`{"jsonrpc":"2.0","id":$id,"result":null}`, live},
		"result, spaced":           {` { "jsonrpc" : "2.0" , "id" : $id , "result" : { } } `, live},
		"-32601":                   {`{"jsonrpc":"2.0","id":$id,"error":{"code":-32601,"message":"Method not found"}}`, live},
		"-32601 without a message": {`{"jsonrpc":"2.0","id":$id,"error":{"code":-32601}}`, live},
		"batch with the answer":    {`[{"jsonrpc":"2.0","id":null,"error":{"code":-32700}},{"jsonrpc":"2.0","id":$id,"result":{}}]`, live},
		"-32600":                   {`{"jsonrpc":"2.0","id":$id,"error":{"code":-32600,"message":"Invalid session ID"}}`, ambiguous},
		"-32603":                   {`{"jsonrpc":"2.0","id":$id,"error":{"code":-32603,"message":"Internal error"}}`, ambiguous},
		"-32001":                   {`{"jsonrpc":"2.0","id":$id,"error":{"code":-32001,"message":"Session not found"}}`, ambiguous},
		"+32601":                   {`{"jsonrpc":"2.0","id":$id,"error":{"code":32601,"message":"?"}}`, ambiguous},
		"-32601 as text":           {`{"jsonrpc":"2.0","id":$id,"error":{"code":"minus 32601","message":"?"}}`, ambiguous},
		"error without a code":     {`{"jsonrpc":"2.0","id":$id,"error":{"message":"unknown method"}}`, ambiguous},
		"error that is text":       {`{"jsonrpc":"2.0","id":$id,"error":"Session not found"}`, ambiguous},
		"error null":               {`{"jsonrpc":"2.0","id":$id,"error":null}`, ambiguous},
		"code null":                {`{"jsonrpc":"2.0","id":$id,"error":{"code":null}}`, ambiguous},
		"error alone":              {`{"error":"Session not found"}`, ambiguous},
		"numeric id":               {`{"jsonrpc":"2.0","id":1,"result":{}}`, ambiguous},
		"null id":                  {`{"jsonrpc":"2.0","id":null,"result":{}}`, ambiguous},
		"null id, -32601":          {`{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"?"}}`, ambiguous},
		"no id":                    {`{"jsonrpc":"2.0","result":{}}`, ambiguous},
		"empty id":                 {`{"jsonrpc":"2.0","id":"","result":{}}`, ambiguous},
		"foreign id":               {`{"jsonrpc":"2.0","id":"server-error","result":{}}`, ambiguous},
		"foreign id, -32601":       {`{"jsonrpc":"2.0","id":"server-error","error":{"code":-32601,"message":"?"}}`, ambiguous},
		"id in an array":           {`{"jsonrpc":"2.0","id":[$id],"result":{}}`, ambiguous},
		"ID":                       {`{"jsonrpc":"2.0","ID":$id,"result":{}}`, ambiguous},
		"Result":                   {`{"jsonrpc":"2.0","id":$id,"Result":{}}`, ambiguous},
		"no jsonrpc":               {`{"id":$id,"result":{}}`, ambiguous},
		"jsonrpc 1.0":              {`{"jsonrpc":"1.0","id":$id,"result":{}}`, ambiguous},
		"jsonrpc as a number":      {`{"jsonrpc":2.0,"id":$id,"result":{}}`, ambiguous},
		"result and error":         {`{"jsonrpc":"2.0","id":$id,"result":{},"error":{"code":-32601,"message":"?"}}`, ambiguous},
		"neither result nor error": {`{"jsonrpc":"2.0","id":$id}`, ambiguous},
		"the probe itself":         {`{"jsonrpc":"2.0","id":$id,"method":"ping"}`, ambiguous},
		"method and result":        {`{"jsonrpc":"2.0","id":$id,"method":"ping","result":{}}`, ambiguous},
		"batch of others":          {`[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":null,"result":{}}]`, ambiguous},
		"batch, empty":             {`[]`, ambiguous},
		"batch in a batch":         {`[[{"jsonrpc":"2.0","id":$id,"result":{}}]]`, ambiguous},
		"result in a result":       {`{"jsonrpc":"2.0","id":1,"result":{"jsonrpc":"2.0","id":$id,"result":{}}}`, ambiguous},
		"text":                     {`Session not found`, ambiguous},
		"string":                   {`"ok"`, ambiguous},
		"null":                     {`null`, ambiguous},
		"number":                   {`200`, ambiguous},
		"unfinished":               {`{"jsonrpc":"2.0","id":$id,"result":{}`, ambiguous},
		"two values":               {`{"jsonrpc":"2.0","id":$id,"result":{}}{}`, ambiguous},
	} {
		t.Run(name, func(t *testing.T) {
			t.Run("JSON", func(t *testing.T) {
				checkProbe(t, probeOutcome{answer: jsonAnswer(tc.message), want: tc.want, probes: 1})
			})
			t.Run("SSE", func(t *testing.T) {
				out := probeOutcome{answer: staysOpen(tc.message), want: tc.want, probes: 1}
				if tc.want != live {
					// The answer might still come, from another attempt.
					out.answer, out.probes, out.most = sseMessage(tc.message), anyNumber, middleware.DefaultProbeBudget
				}
				checkProbe(t, out)
			})
		})
	}
}

// What a probe's answer can be besides a message.
func TestProbeAnswers(t *testing.T) {
	const (
		budget = middleware.DefaultProbeBudget
		pong   = `{"jsonrpc":"2.0","id":$id,"result":{}}`
	)
	short := middleware.Config{MaxHeldBytes: 4 << 10}
	patient := middleware.Config{ProbeTimeout: 40 * time.Second, ProbeBudget: 50 * time.Second}
	long := strings.Repeat("x", 9<<10)
	for name, tc := range map[string]probeOutcome{
		"accepted":               {answer: status(202, asJSON, ""), probes: 1},
		"accepted, with answer":  {answer: rpcAnswerCode(202, asJSON, pong), probes: 1},
		"created, with answer":   {answer: rpcAnswerCode(201, asJSON, pong), probes: 1},
		"no content":             {answer: status(204, "", ""), probes: 1},
		"redirected":             {answer: withHeader(status(302, "text/html", "x"), "Location", "/login"), probes: 1},
		"redirected for good":    {answer: withHeader(status(308, "text/html", "x"), "Location", "/mcp2"), probes: 1},
		"bad request":            {answer: status(400, asJSON, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"No valid session ID"}}`), probes: 1},
		"bad, with own answer":   {answer: rpcAnswerCode(400, asJSON, pong), probes: 1},
		"unauthenticated":        {answer: status(401, "text/plain", "?"), probes: 1},
		"forbidden":              {answer: status(403, "text/html", "?"), probes: 1},
		"not allowed":            {answer: status(405, "", ""), probes: 1},
		"unprocessable":          {answer: status(422, asJSON, "{}"), probes: 1},
		"internal error":         {answer: rpcAnswerCode(500, asJSON, pong), most: budget},
		"bad gateway":            {answer: status(502, "text/html", "<h1>502</h1>"), most: budget},
		"bad gateway, then well": {answer: inTurn(status(502, "text/html", "x"), jsonAnswer(pong)), want: live, probes: 2, most: backoffMost},
		"unavailable, then gone": {answer: inTurn(status(503, "", ""), gone), want: dead, probes: 2, most: backoffMost},
		"unavailable, then 401":  {answer: inTurn(status(503, "", ""), status(401, "", "")), probes: 2, most: backoffMost},
		"limited":                {answer: status(429, "", ""), most: budget},
		"limited for a while":    {answer: inTurn(withHeader(status(429, "", ""), "Retry-After", "6"), jsonAnswer(pong)), want: live, probes: 2, least: 6 * time.Second, most: 6*time.Second + backoffMost},
		"limited for too long":   {answer: withHeader(status(429, "", ""), "Retry-After", "16"), probes: 1},
		"conflict, then well":    {answer: inTurn(status(409, "", ""), jsonAnswer(pong)), want: live, probes: 2, most: backoffMost},
		"page":                   {answer: status(200, "text/html", "<p>welcome</p>"), probes: 1},
		"answer as a page":       {answer: rpcAnswer("text/html", pong), probes: 1},
		"answer of no type": {answer: func(rw http.ResponseWriter, r *http.Request) {
			rw.Header()["Content-Type"] = nil
			rpcAnswer("", pong)(rw, r)
		}, probes: 1},
		"answer, typed at length": {answer: rpcAnswer("Application/JSON; charset=utf-8", pong), want: live, probes: 1},
		"nothing":                 {answer: status(200, asJSON, ""), probes: 1},
		"nothing, as a stream":    {answer: sseAnswer(), most: budget},
		"comments":                {answer: sseAnswer(": ping\n\n", ": ping\n\n"), most: budget},
		"unknown encoding":        {answer: withHeader(jsonAnswer(pong), "Content-Encoding", "zstd"), probes: 1},

		"stream, CR LF":             {answer: rpcAnswer(asSSE, "\uFEFFid: 1\r\ndata: {\"jsonrpc\":\"2.0\",\r\ndata: \"id\":$id,\"result\":{}}\r\n\r\n"), want: live, probes: 1},
		"stream, torn":              {answer: rpcAnswer(asSSE, "data: "+pong), most: budget},
		"stream, primed, then well": {answer: rpcAnswer(asSSE, "id: p-0\nretry: 900\ndata: \n\n: hello\n\ndata: "+pong+"\n\n"), want: live, probes: 1},
		"stream, ended, then well":  {answer: inTurn(sseAnswer("id: p-0\ndata: \n\n"), sseMessage(pong)), want: live, probes: 2, most: backoffMost},

		"too long":                {cfg: short, answer: jsonAnswer(`{"jsonrpc":"2.0","id":$id,"result":{"x":"` + long + `"}}`), probes: 1},
		"too long, spaces":        {cfg: short, answer: jsonAnswer(pong + strings.Repeat(" ", 9<<10)), probes: 1},
		"long enough":             {cfg: short, answer: jsonAnswer(`{"jsonrpc":"2.0","id":$id,"result":{"x":"` + long[:3<<10] + `"}}`), want: live, probes: 1},
		"event too long":          {cfg: middleware.Config{MaxHeldBytes: 8 << 10, MaxEventBytes: 1 << 10}, answer: sseMessage(`{"jsonrpc":"2.0","id":$id,"result":{"x":"` + long[:2<<10] + `"}}`), probes: 1},
		"breaks off":              {answer: breaksOff(200, asJSON, `{"jsonrpc":"2.0","id":$id,`), most: budget},
		"breaks off, then well":   {answer: inTurn(breaksOff(200, asJSON, pong), jsonAnswer(pong)), want: live, probes: 2, most: backoffMost},
		"stream breaks off":       {answer: breaksOff(200, asSSE, "data: "+pong+"\n"), most: budget},
		"breaks off after answer": {answer: breaksOff(200, asSSE, "data: "+pong+"\n\n"), want: live, probes: 1},
		"no answer, then well":    {answer: inTurn(breaksOffAtOnce, jsonAnswer(pong)), want: live, probes: 2, most: backoffMost},
		"no answer, then gone":    {answer: inTurn(breaksOffAtOnce, gone), want: dead, probes: 2, most: backoffMost},

		// C05, C36: whoever does not answer is not dead.
		"never":                      {answer: silent, probes: 3, least: 10 * time.Second, most: budget},
		"headers, then never":        {answer: openSSE(), probes: 3, least: 10 * time.Second, most: budget},
		"never, then well":           {answer: inTurn(silent, jsonAnswer(pong)), want: live, probes: 2, least: 5 * time.Second, most: 5*time.Second + backoffMost},
		"never, then gone":           {answer: inTurn(silent, gone), want: dead, probes: 2, least: 5 * time.Second, most: 5*time.Second + backoffMost},
		"just in time":               {answer: after(4900*time.Millisecond, jsonAnswer(pong)), want: live, probes: 1, least: 4900 * time.Millisecond},
		"gone after 30s":             {answer: after(30*time.Second, gone), probes: 3, least: 10 * time.Second, most: budget},
		"gone after 30s, and waited": {cfg: patient, answer: after(30*time.Second, gone), want: dead, probes: 1, least: 30 * time.Second},
		"well after 30s, and waited": {cfg: patient, answer: after(30*time.Second, jsonAnswer(pong)), want: live, probes: 1, least: 30 * time.Second},
		"never, and waited":          {cfg: patient, answer: silent, probes: 2, least: 40 * time.Second, most: 50 * time.Second},
	} {
		t.Run(name, func(t *testing.T) { checkProbe(t, tc) })
	}
}

// An answer that does not end is left alone once it is too long. I8.
func TestEndlessAnswerToTheProbeIsNotReadOn(t *testing.T) {
	long := strings.Repeat("x", 2000)
	for name, tc := range map[string]struct{ contentType, part string }{
		"spaces":      {asJSON, strings.Repeat(" ", 2000)},
		"text":        {asJSON, long},
		"comments":    {asSSE, ": " + long + "\n"},
		"events":      {asSSE, ": x\nretry: 1\n\n"},
		"one event":   {asSSE, "data: " + long + "\n"},
		"one line":    {asSSE, long},
		"other types": {"text/html", long},
	} {
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int64
			checkProbe(t, probeOutcome{
				cfg:    middleware.Config{MaxHeldBytes: 8 << 10, MaxEventBytes: 4 << 10},
				answer: endless(tc.contentType, tc.part, &sent), want: ambiguous, probes: 1,
			})
			// What is left of an answer may be read to save its connection.
			if got, most := sent.Load(), int64(8<<10+128<<10); got > most {
				t.Errorf("%d bytes of the answer were read, want at most %d", got, most)
			}
		})
	}
}

// Some servers speak their own dialect, and an operator may say so.
func TestProbeDialects(t *testing.T) {
	lenient := middleware.Config{Probe: middleware.Probe{LiveErrorCodes: []int{-32600, -32050}}}
	strict := middleware.Config{Probe: middleware.Probe{DeadStatusCodes: []int{400, 503}}}
	answerWith := func(code int) http.HandlerFunc {
		return jsonAnswer(fmt.Sprintf(`{"jsonrpc":"2.0","id":$id,"error":{"code":%d,"message":"?"}}`, code))
	}
	for name, tc := range map[string]probeOutcome{
		"live code":              {cfg: lenient, answer: answerWith(-32600), want: live, probes: 1},
		"another live code":      {cfg: lenient, answer: answerWith(-32050), want: live, probes: 1},
		"method not found still": {cfg: lenient, answer: answerWith(-32601), want: live, probes: 1},
		"other code":             {cfg: lenient, answer: answerWith(-32603), probes: 1},
		"live code, foreign id":  {cfg: lenient, answer: jsonAnswer(`{"jsonrpc":"2.0","id":"x","error":{"code":-32600,"message":"?"}}`), probes: 1},
		"live code, null id":     {cfg: lenient, answer: jsonAnswer(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"?"}}`), probes: 1},
		"live code, 400":         {cfg: lenient, answer: rpcAnswerCode(400, asJSON, `{"jsonrpc":"2.0","id":$id,"error":{"code":-32600,"message":"?"}}`), probes: 1},
		"dead status":            {cfg: strict, answer: status(400, asJSON, "{}"), want: dead, probes: 1},
		"another dead status":    {cfg: strict, answer: status(503, "", ""), want: dead, probes: 1},
		"not found still":        {cfg: strict, answer: gone, want: dead, probes: 1},
		"other status":           {cfg: strict, answer: status(401, "", ""), probes: 1},
		"live all the same":      {cfg: strict, answer: alive, want: live, probes: 1},
	} {
		t.Run(name, func(t *testing.T) { checkProbe(t, tc) })
	}
}

// A server that is busy for longer than the budget says when to come back.
func TestRetryAfterOfTheProbeIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{ProbeBudget: 8 * time.Second})
		defer w.close()
		w.get, w.post = openSSE(replayed), withHeader(status(429, "", ""), "Retry-After", "18")
		if _, retry := isAmbiguous(t, w.resume(t, "7"), "7"); retry != 18*time.Second {
			t.Errorf("retry = %v, want the server's 18s", retry)
		}
	})
}

// The dialect of the probe is not that of the reconnecting GET.
func TestDeadStatusCodesAreTheProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{Probe: middleware.Probe{DeadStatusCodes: []int{400}}})
		defer w.close()
		w.get, w.post = inTurn(status(400, "text/plain", "bad cursor"), sseAnswer(replayed)), alive
		isUntouched(t, w.resume(t, "7"), 400, "bad cursor")
		isUntouched(t, w.resume(t, "7"), 200, replayed)
	})
}

// What else comes with the probe's answer belongs to the stream: it follows
// what was held, without its ids, and precedes what follows. C52.
func TestOtherMessagesOfTheProbeAreHandedOn(t *testing.T) {
	const (
		pong  = `data: {"jsonrpc":"2.0","id":$id,"result":{}}` + "\n\n"
		prime = "id: p-1\nretry: 700\ndata: \n\n"
	)
	follows := notification("10", "later")
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		extra  string
	}{
		"none":                {rpcAnswer(asSSE, prime+pong), ""},
		"one before":          {rpcAnswer(asSSE, prime+notification("p-2", "queued")+"id: p-3\n"+pong), notification("", "queued")},
		"two before":          {rpcAnswer(asSSE, notification("p-2", "a")+": hm\n\n"+"event: message\n"+notification("p-3", "b")+pong), notification("", "a") + "event: message\n" + notification("", "b")},
		"one after":           {rpcAnswer(asSSE, notification("p-2", "a")+pong+notification("p-9", "not read")), notification("", "a")},
		"answer of another":   {rpcAnswer(asSSE, "data: {\"jsonrpc\":\"2.0\",\"id\":44,\"result\":{}}\n\n"+pong), "data: {\"jsonrpc\":\"2.0\",\"id\":44,\"result\":{}}\n\n"},
		"over attempts":       {inTurn(breaksOff(200, asSSE, notification("p-2", "first")+"data: torn"), status(502, "", ""), rpcAnswer(asSSE, notification("p-7", "second")+pong)), notification("", "first") + notification("", "second")},
		"method not found":    {rpcAnswer(asSSE, notification("p-2", "a")+"data: {\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"?\"}}\n\n"), notification("", "a")},
		"CR LF":               {rpcAnswer(asSSE, "id: p-2\r\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\r\n\r\n"+pong), "data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\r\n\r\n"},
		"JSON, has no others": {jsonAnswer(`{"jsonrpc":"2.0","id":$id,"result":{}}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				released := make(chan struct{})
				w.get = func(rw http.ResponseWriter, r *http.Request) {
					sseAnswer(replayed, "id: 10\n")(rw, r) // the next event is torn as yet
					select {
					case <-released:
					case <-r.Context().Done():
					}
					_, _ = io.WriteString(rw, strings.TrimPrefix(follows, "id: 10\n"))
				}
				w.post = after(time.Millisecond, tc.answer)
				resp := w.resume(t, "7")
				close(released)
				if got, want := read(t, resp), replayed+tc.extra+follows; got != want {
					t.Errorf("body = %q, want %q", got, want)
				}
				// Exactly once: the next reconnect has nothing of it.
				w.get, w.post = sseAnswer(replayed), after(time.Millisecond, alive)
				isUntouched(t, w.resume(t, "7"), 200, replayed)
			})
		})
	}
}

// MCP 2025-03-26 knows batches: the answer may come among others.
func TestOtherMessagesInTheProbesBatchAreHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get = sseAnswer(replayed)
		w.post = after(time.Millisecond, rpcAnswer(asSSE, `data: [{"jsonrpc":"2.0","method":"notifications/queued"},{"jsonrpc":"2.0","id":$id,"result":{}}]`+"\n\n"))
		body := read(t, w.resume(t, "7"))
		rest, ok := strings.CutPrefix(body, replayed)
		if !ok || strings.Count(rest, "notifications/queued") != 1 || strings.Contains(rest, `"result"`) {
			t.Errorf("body = %q, want the replay and then the queued notification", body)
		}
	})
}

// A length that the server gave no longer holds where something was added.
func TestOtherMessagesOfTheProbeAndTheLengthOfTheReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get = withHeader(status(200, asSSE, replayed), "Content-Length", fmt.Sprint(len(replayed)))
		w.post = after(time.Millisecond, rpcAnswer(asSSE, notification("p-2", "queued")+"data: {\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{}}\n\n"))
		resp := w.resume(t, "7")
		body := read(t, resp)
		if want := replayed + notification("", "queued"); body != want {
			t.Errorf("body = %q, want %q", body, want)
		}
		if l := resp.Header.Get("Content-Length"); l != "" && l != fmt.Sprint(len(body)) || resp.ContentLength >= 0 && resp.ContentLength != int64(len(body)) {
			t.Errorf("length of the answer is %q, %d, and its body has %d bytes", l, resp.ContentLength, len(body))
		}
	})
}

// Nothing of a session that is not known to live is released, from wherever it
// came; on one that is, nothing is lost.
func TestOtherMessagesOfAnUndecidedProbeWait(t *testing.T) {
	queued := notification("p-2", "queued")
	for name, answer := range map[string]http.HandlerFunc{
		"refused": rpcAnswer(asSSE, queued+"data: {\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32600,\"message\":\"Invalid session ID\"}}\n\n"),
		"broken":  inTurn(breaksOff(200, asSSE, queued), status(401, "", "")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.get, w.post = sseAnswer(replayed), after(time.Millisecond, answer)
				first := w.resume(t, "7")
				if err := middleware.ErrorFrom(first); err == nil {
					t.Fatal("ErrorFrom(the first answer) = nil, want an undecided round")
				}
				before := read(t, first)
				if strings.Contains(before, "queued") {
					t.Errorf("body of the undecided round = %q, want only the cursor", before)
				}
				w.post = after(time.Millisecond, alive)
				then := read(t, w.resume(t, "7"))
				if n := strings.Count(before+then, "queued"); n != 1 {
					t.Errorf("the message was handed on %d times, want once: %q then %q", n, before, then)
				}
			})
		})
	}
}

// An answer in the middleware's own name is no message of the stream, however
// malformed or late it is.
func TestAnswersToTheProbeAreNeverHandedOn(t *testing.T) {
	const pong = `data: {"jsonrpc":"2.0","id":$id,"result":{}}` + "\n\n"
	for name, first := range map[string]string{
		"no jsonrpc":      `data: {"id":$id,"result":{}}` + "\n\n",
		"echo":            `data: {"jsonrpc":"2.0","id":$id,"method":"ping"}` + "\n\n",
		"no message":      `data: {"jsonrpc":"2.0","id":5}` + "\n\n",
		"not JSON at all": "data: Session not found\n\n",
		"error of nobody": `data: {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Session not found"}}` + "\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.get = sseAnswer(replayed)
				w.post = after(time.Millisecond, inTurn(rpcAnswer(asSSE, first), rpcAnswer(asSSE, pong)))
				isUntouched(t, w.resume(t, "7"), 200, replayed)
			})
		})
	}
}

// What came with a probe is a dead session's once the session is dead.
func TestOtherMessagesOfADeadSessionAreNotHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get, w.post = sseAnswer(replayed), inTurn(breaksOff(200, asSSE, notification("p-2", "queued")), gone)
		deadErr(t, isTerminal(t, w.resume(t, "7")))
	})
}
