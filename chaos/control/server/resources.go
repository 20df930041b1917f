package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// resources answers for those of one kind.
type resources struct {
	*Server
	kind control.Kind
}

func (s resources) list(w http.ResponseWriter, r *request) error {
	list, err := s.backend.List(r.Context(), s.kind)
	if err != nil {
		return err
	}
	if list == nil {
		list = []control.Resource{}
	}
	return writeJSON(w, http.StatusOK, control.ResourceList{Resources: list})
}

func (s resources) get(w http.ResponseWriter, r *request) error {
	name, err := nameOf(r)
	if err != nil {
		return err
	}
	found, err := s.backend.Get(r.Context(), s.kind, name)
	if err != nil {
		return err
	}
	return writeResource(w, http.StatusOK, found)
}

func (s resources) put(w http.ResponseWriter, r *request) error {
	name, err := nameOf(r)
	if err != nil {
		return err
	}
	seen, err := seenOf(r)
	if err != nil {
		return err
	}
	spec, err := s.spec(r.data)
	if err != nil {
		return err
	}
	put, created, err := s.backend.Put(r.Context(), s.kind, name, seen, spec)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		w.Header().Set("Location", "/v1/"+string(s.kind)+"/"+name)
		status = http.StatusCreated
	}
	return writeResource(w, status, put)
}

func (s resources) delete(w http.ResponseWriter, r *request) error {
	name, err := nameOf(r)
	if err != nil {
		return err
	}
	if r.Header.Get("If-None-Match") != "" {
		return control.NewProblem(control.Malformed, "If-None-Match is %.80q, want none: what is not there cannot be deleted", r.Header.Get("If-None-Match"))
	}
	seen, err := seenOf(r)
	if err != nil {
		return err
	}
	if err := s.backend.Delete(r.Context(), s.kind, name, seen); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// spec checks that a body has the fields of a spec, and returns it without the
// blanks. What the fields mean is for the backend.
func (s resources) spec(data []byte) ([]byte, error) {
	if len(data) == 0 {
		return nil, control.NewProblem(control.Malformed, "the body is empty, want the spec as a JSON object")
	}
	var into any
	switch s.kind {
	case control.Servers:
		into = &control.ServerSpec{}
	case control.LoadBalancers:
		into = &control.LoadBalancerSpec{}
	case control.Experiments:
		into = &control.ExperimentSpec{}
	}
	if err := decode(data, into); err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, data); err != nil {
		return nil, err
	}
	return compact.Bytes(), nil
}

func writeResource(w http.ResponseWriter, status int, r control.Resource) error {
	w.Header().Set("ETag", `"`+strconv.FormatInt(r.Generation, 10)+`"`)
	return writeJSON(w, status, r)
}

// seenOf is the generation that whoever asks has seen: 0 for none at all, and -1
// if they do not care.
func seenOf(r *request) (int64, error) {
	match, none := r.Header.Values("If-Match"), r.Header.Values("If-None-Match")
	switch {
	case len(match) == 0 && len(none) == 0:
		return -1, nil
	case len(match)+len(none) > 1:
		return 0, control.NewProblem(control.Malformed, "there are %d of If-Match and If-None-Match, want one", len(match)+len(none))
	case len(none) == 1 && none[0] != "*":
		return 0, control.NewProblem(control.Malformed, "If-None-Match is %.80q, want *", none[0])
	case len(none) == 1:
		return 0, nil
	}
	tag := match[0]
	digits := strings.TrimSuffix(strings.TrimPrefix(tag, `"`), `"`)
	seen, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || seen < 1 || tag != `"`+strconv.FormatInt(seen, 10)+`"` {
		return 0, control.NewProblem(control.Malformed, `If-Match is %.80q, want a generation in quotes, such as "7", as ETag has it`, tag)
	}
	return seen, nil
}

// nameOf is the name in a path.
func nameOf(r *request) (string, error) {
	name := r.PathValue("name")
	if !control.ValidName(name) {
		return "", control.NewProblem(control.Malformed, "the name is %.80q, want %s", name, control.NameRule)
	}
	return name, nil
}
