package server

// Limits of time, for tests in virtual time.
const (
	AnswerTime = answerTime
	WriteTime  = writeTime
	HeaderTime = headerTime
	Grace      = grace
)

// Routes returns the method and path of every route.
func (s *Server) Routes() (routes []struct{ Method, Path string }) {
	for _, r := range s.routes() {
		path := r.path
		if path == "/{$}" {
			path = "/"
		}
		routes = append(routes, struct{ Method, Path string }{r.method, path})
	}
	return routes
}
