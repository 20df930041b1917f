package demo

import "time"

// clock converts between the record's time and this process's.
type clock struct {
	start  time.Time     // T+0
	minute time.Duration // how long one minute of the record takes
}

// real is how long some minutes of the record take.
func (c clock) real(minutes float64) time.Duration {
	return time.Duration(minutes * float64(c.minute))
}

// at is the moment that is so many minutes after T+0.
func (c clock) at(minutes float64) time.Time { return c.start.Add(c.real(minutes)) }

// record is how long d is in the record's time.
func (c clock) record(d time.Duration) time.Duration {
	return time.Duration(float64(d) * float64(time.Minute) / float64(c.minute))
}

// since is when t was, in the record's time after T+0.
func (c clock) since(t time.Time) time.Duration { return c.record(t.Sub(c.start)) }
