package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// param is one field of a [Fault] besides its kind.
type param struct {
	name string
	at   func(*Fault) any // a pointer to the field
}

// params is in the order of the fields.
var params = []param{
	{"direction", func(f *Fault) any { return &f.Direction }},
	{"conn", func(f *Fault) any { return &f.Conn }},
	{"limit", func(f *Fault) any { return &f.Limit }},
	{"bytes", func(f *Fault) any { return &f.Bytes }},
	{"event", func(f *Fault) any { return &f.Event }},
	{"offset", func(f *Fault) any { return &f.Offset }},
	{"how", func(f *Fault) any { return &f.How }},
	{"delay", func(f *Fault) any { return &f.Delay }},
	{"jitter", func(f *Fault) any { return &f.Jitter }},
	{"bytes_per_second", func(f *Fault) any { return &f.BytesPerSecond }},
	{"after", func(f *Fault) any { return &f.After }},
	{"probability", func(f *Fault) any { return &f.Probability }},
}

// sign returns -1, 0 or 1. A name has the sign 1, and so has NaN.
func (p param) sign(f *Fault) int {
	var n float64
	switch v := p.at(f).(type) {
	case *Direction:
		n = float64(len(*v))
	case *How:
		n = float64(len(*v))
	case *int:
		n = float64(*v)
	case *int64:
		n = float64(*v)
	case *time.Duration:
		n = float64(*v)
	case *float64:
		n = *v
	}
	switch {
	case n < 0:
		return -1
	case n == 0:
		return 0
	}
	return 1
}

func (p param) format(f *Fault) string {
	switch v := p.at(f).(type) {
	case *Direction:
		return string(*v)
	case *How:
		return string(*v)
	case *int:
		return strconv.Itoa(*v)
	case *int64:
		return strconv.FormatInt(*v, 10)
	case *time.Duration:
		return v.String()
	case *float64:
		return strconv.FormatFloat(*v, 'g', -1, 64)
	}
	return ""
}

func (p param) parse(f *Fault, text string) error {
	var err error
	var want string
	switch v := p.at(f).(type) {
	case *Direction:
		*v = Direction(text)
	case *How:
		*v = How(text)
	case *int:
		want = "a whole number"
		*v, err = strconv.Atoi(text)
	case *int64:
		want = "a whole number"
		*v, err = strconv.ParseInt(text, 10, 64)
	case *time.Duration:
		want = "a duration such as 1m30s"
		*v, err = time.ParseDuration(text)
	case *float64:
		want = "a number"
		if *v, err = strconv.ParseFloat(text, 64); err == nil && math.IsInf(*v, 0) {
			err = strconv.ErrRange
		}
	}
	if err != nil {
		return fmt.Errorf("fault: %s is %q, want %s", p.name, text, want)
	}
	return nil
}

// String returns f on one line, as [Parse] reads it: the kind and then the
// fields that are not zero, as in "cut_in_event event=3 how=rst".
func (f Fault) String() string {
	s := string(f.Kind)
	for _, p := range params {
		if p.sign(&f) != 0 {
			s += " " + p.name + "=" + p.format(&f)
		}
	}
	return s
}

// Parse reads what [Fault.String] writes: the kind, and after it the fields in
// any order. It returns a valid fault, or every error of s.
func Parse(s string) (Fault, error) {
	words := strings.Fields(s)
	if len(words) == 0 {
		return Fault{}, fmt.Errorf("fault: %q has no kind, want one of %q", s, Kinds())
	}
	f := Fault{Kind: Kind(words[0])}
	var faults []error
	seen := make(map[string]bool)
	for _, word := range words[1:] {
		name, value, ok := strings.Cut(word, "=")
		i := slices.IndexFunc(params, func(p param) bool { return p.name == name })
		switch {
		case !ok || i < 0:
			faults = append(faults, fmt.Errorf("fault: %q, want name=value, the name one of %s", word, paramNames()))
		case seen[name]:
			faults = append(faults, fmt.Errorf("fault: %s is given twice, want it once", name))
		default:
			faults = append(faults, params[i].parse(&f, value))
		}
		seen[name] = true
	}
	if err := errors.Join(faults...); err != nil {
		return Fault{}, err
	}
	if err := f.Validate(); err != nil {
		return Fault{}, err
	}
	return f, nil
}

func paramNames() string {
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.name
	}
	return strings.Join(names, ", ")
}

// wire is a Fault in JSON. Durations are text there.
type wire struct {
	plain
	Delay  string `json:"delay,omitempty"`
	Jitter string `json:"jitter,omitempty"`
	After  string `json:"after,omitempty"`
}

// plain is a Fault without its methods.
type plain Fault

// MarshalJSON writes f as an object of its fields that are not zero; a duration
// is a string such as "1m30s".
func (f Fault) MarshalJSON() ([]byte, error) {
	text := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return d.String()
	}
	return json.Marshal(wire{plain(f), text(f.Delay), text(f.Jitter), text(f.After)})
}

// UnmarshalJSON reads what [Fault.MarshalJSON] writes. It refuses fields that it
// does not know, and leaves the rest to [Fault.Validate].
func (f *Fault) UnmarshalJSON(data []byte) error {
	var w wire
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		return fmt.Errorf("fault: %w", err)
	}
	read := Fault(w.plain)
	var faults []error
	for _, t := range []struct{ name, text string }{
		{"delay", w.Delay}, {"jitter", w.Jitter}, {"after", w.After},
	} {
		i := slices.IndexFunc(params, func(p param) bool { return p.name == t.name })
		if t.text != "" {
			faults = append(faults, params[i].parse(&read, t.text))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	*f = read
	return nil
}
