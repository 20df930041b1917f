package server

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// writeTime is how long a reader may take to take what one write of a stream has.
const writeTime = 30 * time.Second

// writeJSON answers with JSON.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	write(w, status, "application/json", append(data, '\n'))
	return nil
}

// write answers. That somebody does not read it is no error of anybody's.
func write(w http.ResponseWriter, status int, contentType string, data []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	w.Write(data)
}

func writeProblem(w http.ResponseWriter, p *control.Problem) {
	data, err := json.Marshal(p)
	if err != nil { // text and numbers are always JSON
		panic(err)
	}
	write(w, p.Status, "application/problem+json", append(data, '\n'))
}

// patient writes an answer that is long: each write has a time of its own. The
// answer begins with the first one, so that there can be a problem in its place
// until then.
type patient struct {
	w http.ResponseWriter
	// contentType is that of the answer, and policy what a browser may do with it,
	// "" for nothing.
	contentType, policy string
	begun               bool
}

func (p *patient) Write(data []byte) (int, error) {
	if !p.begun {
		p.begun = true
		h := p.w.Header()
		h.Set("Content-Type", p.contentType)
		if p.policy != "" {
			h.Set("Content-Security-Policy", p.policy)
		}
	}
	http.NewResponseController(p.w).SetWriteDeadline(time.Now().Add(writeTime))
	return p.w.Write(data)
}
