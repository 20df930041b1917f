package main

import (
	"context"
	"errors"
	"expvar"
	"log/slog"

	"github.com/revenant-mcp/revenant/middleware"
)

// observe returns a [middleware.Config] hook that logs and counts each event.
// The middleware calls it from several goroutines at once and waits for it, so
// whatever it calls has to be safe and quick, as a logger and an expvar.Map are.
func observe(logger *slog.Logger, counts *expvar.Map) func(middleware.Event) {
	return func(e middleware.Event) {
		counts.Add(e.Kind.String(), 1)
		level := slog.LevelDebug // the steps to a verdict
		attrs := []slog.Attr{slog.String("session", abbreviate(e.SessionID))}
		add := func(a ...slog.Attr) { attrs = append(attrs, a...) }
		switch e.Kind {
		case middleware.Held, middleware.CursorRestored:
			add(slog.String("cursor", e.LastEventID))
		case middleware.ProbeSent:
			add(slog.Int("attempt", e.Attempt))
		case middleware.ProbeAnswered:
			add(slog.String("verdict", e.Verdict.String()), slog.Int("status", e.StatusCode), slog.Duration("took", e.Duration))
			if e.Verdict == middleware.Ambiguous {
				level = slog.LevelWarn
			}
			if e.Err != nil {
				add(slog.Any("error", e.Err))
			}
		case middleware.Released:
			level = slog.LevelInfo // a reconnect that went well
			add(slog.Int("events", e.Events), slog.Int64("bytes", e.Bytes), slog.Duration("held", e.Duration))
		case middleware.Quarantined:
			level = slog.LevelWarn // the application did not get these
			add(slog.String("verdict", e.Verdict.String()), slog.Int("events", e.Events), slog.Int64("bytes", e.Bytes))
		case middleware.SessionDead:
			level = slog.LevelWarn // the client has to initialize again
			var dead *middleware.SessionResumptionError
			if errors.As(e.Err, &dead) {
				add(slog.String("phase", string(dead.Phase)), slog.Int("status", dead.StatusCode),
					slog.Bool("outcome_unknown", dead.OutcomeUnknown), slog.String("detail", dead.Detail))
			}
		case middleware.DuplicateSuppressed:
			level = slog.LevelInfo // the user is not asked again
			add(slog.String("method", e.RPCMethod), slog.String("request", e.RequestID), slog.String("call", e.OriginRequestID))
		case middleware.Stale:
			level = slog.LevelWarn // the call has failed, and may be issued anew
			add(slog.String("method", e.RPCMethod), slog.String("request", e.RequestID), slog.String("call", e.OriginRequestID), slog.Any("error", e.Err))
		case middleware.Fenced:
			level = slog.LevelWarn // somebody has not noticed yet
			add(slog.String("method", e.Method))
		}
		logger.LogAttrs(context.Background(), level, e.Kind.String(), attrs...)
	}
}

// abbreviate leaves of a session id, which is a credential, enough to tell
// sessions apart. It keeps the end: the ids of some servers all begin alike.
func abbreviate(id string) string {
	if len(id) < 16 {
		return "…"
	}
	return "…" + id[len(id)-6:]
}
