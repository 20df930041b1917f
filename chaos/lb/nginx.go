package lb

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"strings"
)

// nginx writes the configuration of nginx and reads its logs. It finds its
// sockets by their addresses among those that the variable NGINX lists, as in an
// upgrade of the binary. It runs as a master and one worker: version 1.22 crashes
// if it inherits sockets and runs as one process.
type nginx struct {
	// complaints holds what the error log has said of a connection, by its
	// number, until the access log follows.
	complaints map[string]string
}

func newNginx() *nginx { return &nginx{complaints: make(map[string]string)} }

// nginxForever is the longest time that nginx can count, in place of a default.
const nginxForever = "24d"

func (*nginx) configure(f *configFile, cfg *Config, at place) {
	f.add("daemon off;")
	f.add("worker_processes 1;")
	if os.Getuid() == 0 {
		// The worker would become another user, who may not enter at.dir.
		f.add("user %s;", rootNames())
	}
	f.add("pid %s/pid;", at.dir)
	f.add("error_log stderr error;")
	f.add("events { worker_connections 8192; }")
	f.add("http {")
	// Each upload that does not fit into memory, and each response, goes here.
	for _, what := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		f.add("  %s_temp_path %s/%s;", what, at.dir, what)
	}
	f.add("  server_tokens off;")
	if cfg.Observe != nil {
		f.add("  log_format event '%s $connection $status $body_bytes_sent $request_method $uri $request_completion';", logMark)
		f.add("  access_log /dev/stderr event;")
	} else {
		f.add("  access_log off;")
	}

	f.add("  upstream %s {", backend)
	for i, addr := range cfg.upstreams() {
		// Without max_fails=0 a silent stream puts its upstream aside for a while.
		f.from(upstreamSetting(cfg, i), "    server %s max_fails=0;", addr)
	}
	if !*cfg.Buffering {
		f.add("    keepalive %d;", maxIdleUpstream)
	}
	f.add("  }")

	f.add("  server {")
	protocol := ""
	if cfg.H2C {
		protocol = " http2"
	}
	f.from("H2C", "    listen %s%s;", at.clients, protocol)
	idle := nginxForever
	if cfg.IdleTimeout > 0 {
		idle = milliseconds(cfg.IdleTimeout)
	}
	for _, directive := range []string{
		"client_header_timeout", "client_body_timeout", "keepalive_timeout", "send_timeout",
		"proxy_read_timeout", "proxy_send_timeout",
	} {
		f.from("IdleTimeout", "    %s %s;", directive, idle)
	}
	f.add("    keepalive_requests 1000000;")
	f.add("    client_max_body_size 0;")
	f.add("    location / {")
	f.add("      proxy_pass http://%s;", backend)
	f.add("      proxy_connect_timeout %s;", milliseconds(connectTimeout))
	f.add("      proxy_next_upstream error;")
	f.add("      proxy_redirect off;")
	f.add("      proxy_set_header Host $http_host;")
	f.add("      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;")
	if *cfg.Buffering {
		// As nginx comes. Over HTTP/1.1 a chunk counts as whole, and is passed on
		// at once: there would be hardly any buffering of a stream.
		f.from("Buffering", "      proxy_buffering on;")
		f.from("Buffering", "      proxy_http_version 1.0;")
	} else {
		f.from("Buffering", "      proxy_buffering off;")
		f.add("      proxy_request_buffering off;")
		f.add("      proxy_http_version 1.1;")
		f.add("      proxy_set_header Connection '';")
	}
	f.add("    }")
	f.add("  }")

	f.add("  server {")
	f.add("    listen unix:%s;", at.control)
	f.add("    access_log off;")
	f.add("    return 204;")
	f.add("  }")
	f.add("}")
}

// rootNames are the names of user and group 0.
func rootNames() string {
	names := "root root"
	if g, err := user.LookupGroupId("0"); err == nil {
		names = "root " + g.Name
	}
	return names
}

func (*nginx) command(config string, check bool) (args, env []string) {
	args = []string{"-e", "stderr", "-c", config}
	if check {
		args = append(args, "-t", "-q")
	}
	return args, []string{fmt.Sprintf("NGINX=%d;%d;", listenerFD, controlFD)}
}

func (*nginx) answers(control net.Conn) error {
	if _, err := io.WriteString(control, "GET / HTTP/1.1\r\nHost: control\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	res, err := http.ReadResponse(bufio.NewReader(control), nil)
	if err != nil {
		return err
	}
	res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		return errors.New(res.Status)
	}
	return nil
}

// cut is not called: CanCut allows nothing.
func (*nginx) cut(*Config, func() (net.Conn, error)) (int, error) { return 0, nil }

// event reads `MARK connection status bytes method path completion` of the access
// log, and before it, of the error log, `date [error] pid#0: *connection message,
// client: ...`.
func (n *nginx) event(cfg *Config, line string) (e Event, ok bool) {
	if !strings.HasPrefix(line, logMark+" ") {
		if _, rest, found := strings.Cut(line, ": *"); found {
			if conn, message, found := strings.Cut(rest, " "); found {
				message, _, _ = strings.Cut(message, ", client: ")
				n.complaints[conn] = message
			}
		}
		return e, false
	}
	fields := strings.SplitN(line, " ", 7)
	if len(fields) < 7 {
		return e, false
	}
	complaint := n.complaints[fields[1]]
	delete(n.complaints, fields[1])
	e.Status, _ = strconv.Atoi(fields[2])
	e.Bytes, _ = strconv.ParseInt(fields[3], 10, 64)
	if e.Method, e.Path = fields[4], fields[5]; e.Method == "-" {
		e.Method, e.Path = "", ""
	}
	timedOut := strings.HasPrefix(complaint, "upstream timed out")
	switch {
	case e.Status == 499: // its own, for a client that left before the response
		e.Kind, e.Status, e.Err = Ended, 0, ErrClientLeft
	case timedOut && e.Status == http.StatusGatewayTimeout:
		e.Kind, e.Err = Refused, ErrIdle
	case timedOut:
		e.Kind, e.Expiry, e.Err = Cut, cfg.OnExpiry, ErrIdle
	case complaint != "":
		e.Err = fmt.Errorf("lb: upstream: %s", complaint)
		if e.Kind = Ended; e.Status == http.StatusBadGateway {
			e.Kind = Refused
		}
	case fields[6] != "OK":
		e.Kind, e.Err = Ended, ErrClientLeft
	default:
		e.Kind = Ended
	}
	return e, true
}
