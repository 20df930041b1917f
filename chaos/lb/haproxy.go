package lb

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// haproxy writes the configuration of haproxy and reads its log. It runs as one
// process and takes both its sockets as they are.
type haproxy struct{}

// backend is what the configuration calls the upstreams as a whole.
const backend = "upstreams"

func (haproxy) configure(f *configFile, cfg *Config, _ place) {
	f.add("global")
	if cfg.Observe != nil {
		f.add("  log stdout format raw local0 info")
	}
	f.add("  stats socket fd@%d level admin", controlFD)

	f.add("defaults")
	f.from("Mode", "  mode %s", cfg.Mode)
	f.add("  timeout connect %s", milliseconds(connectTimeout))
	if cfg.IdleTimeout > 0 {
		if cfg.Mode == HTTP {
			// In TCP mode it would compete with the server's, and tell the
			// upstream that the client has no more to say, to which an HTTP
			// server replies with a clean end.
			f.from("IdleTimeout", "  timeout client %s", milliseconds(cfg.IdleTimeout))
		} else {
			// After the server's, the client has as long to close its side.
			f.from("IdleTimeout", "  timeout client-fin %s", milliseconds(cfg.IdleTimeout))
		}
		f.from("IdleTimeout", "  timeout server %s", milliseconds(cfg.IdleTimeout))
	}
	// A connection that is refused goes to each of the other upstreams at once.
	f.add("  retries %d", len(cfg.upstreams())-1)
	f.add("  option redispatch 1")

	f.add("frontend clients")
	switch {
	case cfg.H2C:
		f.from("H2C", "  bind fd@%d proto h2", listenerFD)
	case cfg.Mode == HTTP:
		f.add("  bind fd@%d", listenerFD)
		f.from("H2C", "  option disable-h2-upgrade")
	default:
		f.add("  bind fd@%d", listenerFD)
	}
	if cfg.Observe != nil {
		f.add("  log global")
		f.add("  option dontlognull")
		if cfg.Mode == HTTP {
			f.add(`  log-format "%s %%ts %%B %%ST %%HM %%HPO"`, logMark)
		} else {
			f.add(`  log-format "%s %%ts %%B"`, logMark)
		}
	}
	f.add("  default_backend %s", backend)

	f.add("backend %s", backend)
	f.from("Balance", "  balance roundrobin")
	if cfg.Mode == HTTP {
		f.add("  option forwardfor")
	}
	switch cfg.Balance {
	case CookieAffinity:
		f.from("Balance", "  cookie %s insert indirect nocache", AffinityCookie)
	case SessionAffinity:
		f.from("Balance", "  stick-table type string len 256 size %d", maxSessions)
		f.from("Balance", "  stick on req.hdr(%s)", sessionHeader)
		f.from("Balance", "  stick store-response res.hdr(%s)", sessionHeader)
	}
	for i, addr := range cfg.upstreams() {
		cookie := ""
		if cfg.Balance == CookieAffinity {
			cookie = " cookie " + serverName(i)
		}
		f.from(upstreamSetting(cfg, i), "  server %s %s%s", serverName(i), addr, cookie)
	}
}

// upstreamSetting is the field that an upstream comes from.
func upstreamSetting(cfg *Config, i int) string {
	if cfg.Upstream != "" {
		return "Upstream"
	}
	return fmt.Sprintf("Upstreams[%d]", i)
}

func (haproxy) command(config string, check bool) (args, env []string) {
	if check {
		return []string{"-c", "-f", config}, nil
	}
	return []string{"-db", "-f", config}, nil // -db: one process, in the foreground
}

func (haproxy) answers(control net.Conn) error {
	info, err := ask(control, "show info")
	if err == nil && !strings.Contains(info, "HAProxy") {
		err = fmt.Errorf("%q", info)
	}
	return err
}

// ask gives haproxy a command and returns its answer.
func ask(control net.Conn, command string) (string, error) {
	if _, err := io.WriteString(control, command+"\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(control)
	return string(answer), err
}

func (haproxy) cut(cfg *Config, dial func() (net.Conn, error)) (int, error) {
	command := func(text string) (string, error) {
		conn, err := dial()
		if err != nil {
			return "", err
		}
		defer conn.Close()
		return ask(conn, text)
	}
	stat, err := command("show stat " + backend + " 4 -1") // 4: servers
	if err != nil {
		return 0, err
	}
	n, err := sessionsAtServers(stat)
	if err != nil {
		return 0, err
	}
	for i := range cfg.upstreams() {
		if _, err := command("shutdown sessions server " + backend + "/" + serverName(i)); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// sessionsAtServers reads how many requests are with the upstreams.
func sessionsAtServers(stat string) (int, error) {
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(stat, "# "))).ReadAll()
	if err != nil {
		return 0, err
	}
	n, column := 0, -1
	for i, row := range rows {
		if i == 0 {
			for c, name := range row {
				if name == "scur" {
					column = c
				}
			}
		} else if column >= 0 && column < len(row) {
			current, _ := strconv.Atoi(row[column])
			n += current
		}
	}
	return n, nil
}

// logMark begins the lines of a program's log that are for event.
const logMark = "revenant-lb-event"

// errUpstreamGone says that an upstream broke off, or could not be reached.
var errUpstreamGone = errors.New("lb: upstream: broke off, or could not be reached")

// event reads `MARK termination-state bytes [status method path]`. The states are
// those of "Session state at disconnection" in haproxy's configuration manual.
func (haproxy) event(cfg *Config, line string) (e Event, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 3 || fields[0] != logMark || len(fields[1]) != 2 {
		return e, false
	}
	who, when := fields[1][0], fields[1][1]
	e.Bytes, _ = strconv.ParseInt(fields[2], 10, 64)
	if len(fields) >= 6 {
		e.Status, _ = strconv.Atoi(fields[3])
		e.Status = max(0, e.Status) // -1: none
		if fields[4] != "<BADREQ>" {
			e.Method, e.Path = fields[4], fields[5]
		}
	}
	underWay := when == 'D' || when == 'L' || cfg.Mode == TCP
	switch who {
	case '-':
		e.Kind = Ended
	case 'c', 's':
		e.Err = ErrIdle
		if e.Kind = Refused; underWay {
			e.Kind, e.Expiry = Cut, cfg.OnExpiry
		}
	case 'K':
		e.Kind, e.Expiry, e.Err = Cut, cfg.OnExpiry, ErrCut
	case 'C':
		e.Kind, e.Err = Ended, ErrClientLeft
		if !underWay {
			e.Status = 0
		}
	case 'S', 'D':
		e.Err = errUpstreamGone
		if e.Kind = Refused; underWay {
			e.Kind = Ended
		}
	default:
		e.Kind, e.Err = Ended, fmt.Errorf("lb: haproxy: termination state %q", fields[1])
		if e.Status >= 400 && !underWay {
			e.Kind = Refused
		}
	}
	return e, true
}
