package experiment

import (
	"fmt"
	"strings"
	"time"
)

// Duration is a length of time, or a reading of the experiment's clock, in the
// record's time. As text it is a number with a unit, or several: "90s", "1m30s".
type Duration time.Duration

// maxDuration is well beyond any record's.
const maxDuration = Duration(366 * 24 * time.Hour)

// String returns d without units that are zero: "30m", not "30m0s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Span is d as a length of time of its own, still in the record's time.
func (d Duration) Span() time.Duration { return time.Duration(d) }

// MarshalText returns what String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a duration with its unit, from "0s" to a year.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || !durationPattern.Match(text) {
		return fmt.Errorf("%q is no duration, want a number with a unit, such as 30s or 1m30s", text)
	}
	if Duration(v) > maxDuration {
		return fmt.Errorf("%q is too long, want at most %v", text, maxDuration)
	}
	*d = Duration(v)
	return nil
}

// Limit is a limit of a load balancer: a [Duration], or [NoLimit], as text
// "none". The zero value is the profile's limit, or else none.
type Limit Duration

// NoLimit says that there is no limit though the profile has one.
const NoLimit Limit = -1

const noLimitText = "none"

// String returns "none" or the duration.
func (l Limit) String() string {
	if l == NoLimit {
		return noLimitText
	}
	return Duration(l).String()
}

// MarshalText returns what String does.
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads "none" or a duration that is not 0.
func (l *Limit) UnmarshalText(text []byte) error {
	if string(text) == noLimitText {
		*l = NoLimit
		return nil
	}
	var d Duration
	if err := d.UnmarshalText(text); err != nil {
		return fmt.Errorf("%w, or %s", err, noLimitText)
	}
	if d == 0 {
		return fmt.Errorf("%q is no limit, want more, or %s", text, noLimitText)
	}
	*l = Limit(d)
	return nil
}

// Real returns how long d takes when the experiment runs.
func (d *Definition) Real(of Duration) time.Duration {
	return time.Duration(float64(of) / d.Scale())
}

// Record returns how long a real duration is in the record's time.
func (d *Definition) Record(of time.Duration) Duration {
	return Duration(float64(of) * d.Scale())
}

// Scale is TimeScale with its default.
func (d *Definition) Scale() float64 {
	if d.TimeScale == 0 {
		return 1
	}
	return d.TimeScale
}
