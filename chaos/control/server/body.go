package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// readBody reads all of a body, which has at most so many bytes.
func readBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	tooLarge := control.NewProblem(control.TooLarge, "the body is longer than %d bytes", most)
	if most == 0 {
		tooLarge = control.NewProblem(control.TooLarge, "the request has a body, want none")
	}
	if r.ContentLength > most {
		return nil, tooLarge
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge
	case err != nil:
		return nil, control.NewProblem(control.Malformed, "the body could not be read: %v", err)
	}
	return data, nil
}

func (r *request) parseForm() error {
	form, err := url.ParseQuery(string(r.data))
	if err != nil {
		return control.NewProblem(control.Malformed, "the body is no form")
	}
	r.PostForm = form
	return nil
}

// decode reads a body that is a JSON object with the fields of the struct that
// into points to, spelled as they are and each at most once, and reports all that
// is wrong with them. An empty body is for the caller.
func decode(data []byte, into any) error {
	if !utf8.Valid(data) {
		return control.NewProblem(control.Malformed, "the body is not UTF-8")
	}
	if !json.Valid(data) {
		err := json.Unmarshal(data, new(any))
		var at *json.SyntaxError
		if errors.As(err, &at) {
			return control.NewProblem(control.Malformed, "the body is not JSON: byte %d: %v", at.Offset, at)
		}
		return control.NewProblem(control.Malformed, "the body is not JSON: %v", err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if open, _ := d.Token(); open != json.Delim('{') {
		return control.NewProblem(control.Malformed, "the body is %s, want an object", kindOf(data))
	}
	fields, names := fieldsOf(into)
	seen := map[string]bool{}
	problem := control.NewProblem(control.Invalid, "")
	fault := func(field, format string, args ...any) {
		problem.Fields = append(problem.Fields, control.FieldError{Field: field, Detail: fmt.Sprintf(format, args...)})
	}
	for d.More() {
		key, value := "", json.RawMessage(nil)
		token, _ := d.Token() // the whole is valid
		key = token.(string)
		d.Decode(&value)
		field, known := fields[key]
		switch {
		case !known && len(problem.Fields) < maxFaults:
			fault(clip(key), "is not a field, want %s", either(names))
		case !known:
		case seen[key]:
			fault(key, "is there twice, want it once")
		default:
			if err := json.Unmarshal(value, field.Addr().Interface()); err != nil {
				path, detail := mistake(key, err)
				fault(path, "%s", detail)
			}
		}
		seen[key] = true
	}
	if len(problem.Fields) == 0 {
		return nil
	}
	problem.Detail = "the body has a field that cannot be meant"
	if n := len(problem.Fields); n > 1 {
		problem.Detail = fmt.Sprintf("the body has %d fields that cannot be meant", n)
	}
	return problem
}

// maxFaults is how many unknown fields are worth reading of.
const maxFaults = 50

// fieldsOf returns the fields of a struct by their names in JSON, and the names in
// their order.
func fieldsOf(into any) (fields map[string]reflect.Value, names []string) {
	v := reflect.ValueOf(into).Elem()
	fields = map[string]reflect.Value{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		fields[name] = v.Field(i)
		names = append(names, name)
	}
	return fields, names
}

// mistake says what is wrong with a field's value.
func mistake(key string, err error) (path, detail string) {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return key, err.Error()
	}
	if wrong.Field != "" {
		key += "." + wrong.Field
	}
	want := map[reflect.Kind]string{
		reflect.String: "a string", reflect.Bool: "true or false", reflect.Slice: "a list",
		reflect.Int: "a whole number", reflect.Uint64: "a whole number from 0", reflect.Float64: "a number",
		reflect.Struct: "an object", reflect.Map: "an object",
	}[wrong.Type.Kind()]
	if want == "" {
		want = wrong.Type.String()
	}
	return key, fmt.Sprintf("is %s, want %s", wrong.Value, want)
}

// kindOf is what a JSON value is, in words.
func kindOf(data []byte) string {
	switch data = bytes.TrimLeft(data, " \t\r\n"); data[0] {
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 'n':
		return "null"
	case 't', 'f':
		return "true or false"
	}
	return "a number"
}

func either(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	last := len(names) - 1
	return "one of " + strings.Join(names[:last], ", ") + " or " + names[last]
}

// clip shortens what somebody else wrote.
func clip(text string) string {
	const most = 80
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most]) + "…"
}

// params returns the query of a request, in which each of these names may be once
// and no other.
func params(r *request, names ...string) (map[string]string, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, control.NewProblem(control.Malformed, "the query cannot be read")
	}
	values := map[string]string{}
	for name, list := range query {
		if !slices.Contains(names, name) {
			return nil, control.NewProblem(control.Malformed, "the query has %.80q, want %s", name, either(names))
		}
		if len(list) > 1 {
			return nil, control.NewProblem(control.Malformed, "the query has %s %d times, want it once", name, len(list))
		}
		values[name] = list[0]
	}
	return values, nil
}
