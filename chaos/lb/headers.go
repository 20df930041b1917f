package lb

import (
	"net"
	"net/http"
	"strings"
)

// hopByHop are the headers that concern one connection whether or not
// Connection names them (RFC 9110 section 7.6.1).
var hopByHop = []string{
	"Connection",
	"Proxy-Connection",
	"Keep-Alive",
	"Te",
	"Transfer-Encoding",
	"Upgrade",
}

// removeHopByHop removes from h what must not be forwarded.
func removeHopByHop(h http.Header) {
	for _, value := range h["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
}

// appendForwardedFor adds the client to the end of X-Forwarded-For, as one
// header. An address that is not host:port adds nothing.
func appendForwardedFor(h http.Header, remoteAddr string) {
	host, _, err := net.SplitHostPort(remoteAddr)
	if err != nil {
		return
	}
	const name = "X-Forwarded-For"
	h.Set(name, strings.Join(append(h.Values(name), host), ", "))
}

// copyResponseHeader moves the headers of a response into those that go to the
// client, and keeps net/http from adding any of its own that say something
// about the content.
func copyResponseHeader(dst http.Header, res *http.Response) {
	removeHopByHop(res.Header)
	for name, values := range res.Header {
		dst[name] = values
	}
	for _, name := range []string{"Content-Type", "Date"} {
		if _, ok := dst[name]; !ok {
			dst[name] = nil
		}
	}
	for name := range res.Trailer {
		dst.Add("Trailer", name)
	}
}
