package server

import (
	"net/http"

	"github.com/revenant-mcp/revenant/chaos/control"
)

func (s *Server) info(w http.ResponseWriter, r *request) error {
	info, err := s.backend.Info(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, info)
}

func (s *Server) halt(w http.ResponseWriter, r *request) error {
	var req control.HaltRequest
	if len(r.data) > 0 {
		if err := decode(r.data, &req); err != nil {
			return err
		}
	}
	info, err := s.backend.Halt(r.Context(), req.Reason)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, info)
}

func (s *Server) resume(w http.ResponseWriter, r *request) error {
	info, err := s.backend.Resume(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, info)
}

func (s *Server) openAPI(w http.ResponseWriter, r *request) error {
	write(w, http.StatusOK, "application/yaml", []byte(control.OpenAPI()))
	return nil
}

// healthy says that requests are answered, and nothing of the backend: who asks
// may be anybody.
func (s *Server) healthy(w http.ResponseWriter, r *request) error {
	write(w, http.StatusOK, "text/plain; charset=utf-8", []byte("ok\n"))
	return nil
}
