package server

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// SessionLength is how long a browser stays logged in.
const SessionLength = 12 * time.Hour

// door decides who may come in. It is immutable, and knows the token only by its
// hash.
type door struct {
	unix  bool
	token [sha256.Size]byte
	hosts map[string]bool // nil for any
	// key is for cookies and forms. It is this server's alone: they end with it.
	key []byte
}

func newDoor(token string, unix bool, hosts map[string]bool) *door {
	d := &door{unix: unix, token: sha256.Sum256([]byte(token)), hosts: hosts, key: make([]byte, sha256.Size)}
	rand.Read(d.key) // never fails
	return d
}

// entry is how somebody came in.
type entry struct {
	ok bool
	// cookie is the browser's session, "" for a bearer or on a socket.
	cookie string
	// bearer is whether the request has the token itself, which a browser does not
	// send by itself.
	bearer bool
}

// host checks by which name the server was asked for: another one means that a
// browser was led here by a name that somebody else resolves.
func (d *door) host(r *http.Request) *control.Problem {
	if d.hosts == nil {
		return nil
	}
	name, _ := split(r.Host)
	if host, ok := hostName(name); ok && d.hosts[host] {
		return nil
	}
	return control.NewProblem(control.Forbidden, "the request is for host %.80q, want localhost, or a name that the daemon was told to allow", r.Host)
}

// split returns a host and its port, "" for none. What has no number for a port is
// no host.
func split(hostPort string) (host, port string) {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return hostPort, ""
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", ""
	}
	return host, port
}

// enter says how a request comes in.
func (d *door) enter(r *http.Request) entry {
	if d.unix {
		return entry{ok: true}
	}
	if values := r.Header.Values("Authorization"); len(values) > 0 {
		scheme, token, _ := strings.Cut(values[0], " ")
		ok := len(values) == 1 && strings.EqualFold(scheme, "Bearer") && d.known(token)
		return entry{ok: ok, bearer: ok}
	}
	cookie, err := r.Cookie(cookieName(r))
	if err != nil || !d.session(cookie.Value) {
		return entry{}
	}
	return entry{ok: true, cookie: cookie.Value}
}

// known compares a token in a time that depends on neither: both are hashed, so
// that their lengths are the same.
func (d *door) known(token string) bool {
	hash := sha256.Sum256([]byte(token))
	return !d.unix && subtle.ConstantTimeCompare(hash[:], d.token[:]) == 1
}

// cookieName is the name of the cookie. Cookies know no ports, and there may be
// a daemon on another one.
func cookieName(r *http.Request) string {
	if _, port := split(r.Host); port != "" {
		return "revenant-" + port
	}
	return "revenant"
}

// newSession is a cookie's value: when it ends, and the proof that it is of this
// server.
func (d *door) newSession() string {
	ends := strconv.FormatInt(time.Now().Add(SessionLength).Unix(), 10)
	return ends + "." + d.sign("session", ends)
}

func (d *door) session(value string) bool {
	ends, proof, _ := strings.Cut(value, ".")
	if !hmac.Equal([]byte(proof), []byte(d.sign("session", ends))) {
		return false
	}
	until, err := strconv.ParseInt(ends, 10, 64)
	return err == nil && time.Now().Unix() < until
}

// form is the token of the forms on the pages of a session, or of a socket.
func (d *door) form(cookie string) string { return d.sign("form", cookie) }

// sent is whether a form comes from one of these pages.
func (d *door) sent(e entry, token string) bool {
	return e.bearer || hmac.Equal([]byte(token), []byte(d.form(e.cookie)))
}

func (d *door) sign(what, value string) string {
	mac := hmac.New(sha256.New, d.key)
	mac.Write([]byte(what + "\n" + value))
	return hex.EncodeToString(mac.Sum(nil))
}

// setCookie logs a browser in, or with "" out.
func setCookie(w http.ResponseWriter, r *http.Request, value string) {
	cookie := &http.Cookie{
		Name: cookieName(r), Value: value, Path: "/", MaxAge: int(SessionLength / time.Second),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}
