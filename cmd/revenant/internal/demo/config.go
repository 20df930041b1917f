package demo

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"
)

const (
	// DefaultScale has a minute of the record take 600 ms.
	DefaultScale = 100
	// MinScale is the record's own pace.
	MinScale = 1
	// MaxScale has a minute of the record take 200 ms. Beyond it the pauses of
	// an ordinary machine are as long as the record's.
	MaxScale = 300
	// DefaultListen is any free port on loopback.
	DefaultListen = "127.0.0.1:0"
)

// Config is the settings of a Demo. The zero Config is complete.
type Config struct {
	_ struct{}

	// Scale is how many times faster than the record the demo runs. 0:
	// [DefaultScale]. [MinScale] to [MaxScale].
	Scale float64

	// ListenControl and ListenProtected are the addresses of the two load
	// balancers, as host:port. The host is localhost or a loopback address:
	// behind it is a server without authentication. "": [DefaultListen].
	ListenControl, ListenProtected string

	// Records are what is replayed, in this order. nil: all there are.
	Records []*Record

	// Begin, if not nil, is told of each record before it is replayed, and End
	// what came of it. Line is told each line of the timeline when it happens,
	// and Doing what is going on until the next one. All are called from the
	// goroutine of Run.
	Begin func(*Record)
	Line  func(Line)
	Doing func(string)
	End   func(*Findings)
}

// A SettingError is what is wrong with one setting.
type SettingError struct {
	// Setting is the name of the setting, as the command line has it.
	Setting string
	Value   string
	Err     error
}

// Error names the setting as a flag.
func (e *SettingError) Error() string {
	return fmt.Sprintf("--%s %s: %v", e.Setting, e.Value, e.Err)
}

// Unwrap returns what is wrong.
func (e *SettingError) Unwrap() error { return e.Err }

// The names of the settings in a [SettingError].
const (
	SettingScale           = "scale"
	SettingRecord          = "record"
	SettingListenControl   = "listen-control"
	SettingListenProtected = "listen-protected"
)

// compile returns c with its defaults filled in, or every fault of it.
func (c Config) compile() (Config, error) {
	if c.Scale == 0 {
		c.Scale = DefaultScale
	}
	if c.ListenControl == "" {
		c.ListenControl = DefaultListen
	}
	if c.ListenProtected == "" {
		c.ListenProtected = DefaultListen
	}
	if c.Records == nil {
		c.Records = records
	}
	if c.Begin == nil {
		c.Begin = func(*Record) {}
	}
	if c.Line == nil {
		c.Line = func(Line) {}
	}
	if c.Doing == nil {
		c.Doing = func(string) {}
	}
	if c.End == nil {
		c.End = func(*Findings) {}
	}
	var faults []error
	if !validScale(c.Scale) {
		faults = append(faults, &SettingError{SettingScale, strconv.FormatFloat(c.Scale, 'g', -1, 64), errScale})
	}
	for _, listen := range []struct{ setting, addr string }{
		{SettingListenControl, c.ListenControl},
		{SettingListenProtected, c.ListenProtected},
	} {
		if err := onLoopback(listen.addr); err != nil {
			faults = append(faults, &SettingError{listen.setting, strconv.Quote(listen.addr), err})
		}
	}
	return c, errors.Join(faults...)
}

var errScale = fmt.Errorf("want a number from %d to %d; with %d a minute takes %v",
	MinScale, MaxScale, DefaultScale, time.Minute/DefaultScale)

// ParseScale reads a scale and checks its bounds.
func ParseScale(text string) (float64, error) {
	scale, err := strconv.ParseFloat(text, 64)
	if err != nil || !validScale(scale) {
		return 0, errScale
	}
	return scale, nil
}

// NaN is in no range.
func validScale(s float64) bool { return s >= MinScale && s <= MaxScale }

var errNotLoopback = errors.New("not on loopback, where it has to be: there is no authentication")

func onLoopback(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return errors.New("want host:port, such as " + DefaultListen)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return errors.New("want a port from 0 to 65535, 0 being any free one")
	}
	if host == "localhost" {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
		return errNotLoopback
	}
	return nil
}

// listen binds an address that is on loopback.
func listen(setting, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		// net names the address once more.
		if op := (*net.OpError)(nil); errors.As(err, &op) {
			err = op.Err
		}
		return nil, &SettingError{setting, strconv.Quote(addr), err}
	}
	if tcp, ok := l.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		// A resolver may say anything of localhost.
		l.Close()
		return nil, &SettingError{setting, strconv.Quote(addr), errNotLoopback}
	}
	return l, nil
}
