package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// flagOf is the value of a flag that is checked when it is read.
type flagOf struct {
	kind string
	set  func(text string) error
	text func() string
}

var _ pflag.Value = (*flagOf)(nil)

func (f *flagOf) Set(text string) error { return f.set(text) }
func (f *flagOf) Type() string          { return f.kind }

// String is also called of a flag's zero value.
func (f *flagOf) String() string {
	if f.text == nil {
		return ""
	}
	return f.text()
}

// oneOf is a flag that may be given several times, or with several values and
// commas between them, each of which is one of those that there are.
func oneOf[T ~string](to *[]T, kind string, all []T) pflag.Value {
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = string(one)
	}
	return &flagOf{kind, func(text string) error {
		for _, one := range strings.Split(text, ",") {
			one := T(strings.TrimSpace(one))
			if !slices.Contains(all, one) {
				return fmt.Errorf("%q is none: want %s, or several with commas", one, either(names))
			}
			if !slices.Contains(*to, one) {
				*to = append(*to, one)
			}
		}
		return nil
	}, func() string { return commas(*to) }}
}

// commas is a list on a command line.
func commas[T ~string](all []T) string {
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = string(one)
	}
	return strings.Join(texts, ",")
}

// either is words with "or" before the last.
func either(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// wholeNumber is a flag with a number from 1.
func wholeNumber(to *uint64, most uint64) pflag.Value {
	return &flagOf{"n", func(text string) error {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || n < 1 || n > most {
			if most == math.MaxUint64 {
				return fmt.Errorf("want a whole number from 1")
			}
			return fmt.Errorf("want a whole number from 1 to %d", most)
		}
		*to = n
		return nil
	}, func() string {
		if *to == 0 {
			return ""
		}
		return strconv.FormatUint(*to, 10)
	}}
}

// factor is a flag with a number within bounds.
func factor(to *float64, least, most float64) pflag.Value {
	return &flagOf{"x", func(text string) error {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || !(x >= least && x <= most) { // NaN is neither
			return fmt.Errorf("want a number from %v to %v", least, most)
		}
		*to = x
		return nil
	}, func() string {
		if *to == 0 {
			return ""
		}
		return strconv.FormatFloat(*to, 'g', -1, 64)
	}}
}
