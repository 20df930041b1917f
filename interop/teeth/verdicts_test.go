package teeth_test

// verdicts are mutants that come to another verdict, or act on it otherwise.
var verdicts = []mutant{
	{
		name: "no-probe",
		harm: "A replay is released at once: a dead session's events are acted on.",
		by:   []string{"replicas"},
		edits: []edit{{"reconnect.go",
			`	if s.quietNow(held) && b.emptyWithin(emptyTimeout) {`,
			`	if s != nil {`,
		}},
	},
	{
		name: "probe-first",
		harm: "The verdict is asked for before the replay opens: a session that dies in between is believed to live.",
		by:   []string{"reaper"},
		edits: []edit{
			{"reconnect.go",
				`	opening  bool    // counted in session.opening
`,
				`	opening  bool    // counted in session.opening
	early    *round
`,
			},
			{"reconnect.go",
				`	defer r.settled()
	resp, a, err := r.open()
`,
				`	defer r.settled()
	r.settled()
	r.early = r.t.join(r.f, nil, nil)
	select {
	case <-r.early.done:
	case <-s.over:
	case <-r.f.client.Context().Done():
	}
	resp, a, err := r.open()
`,
			},
			{"reconnect.go",
				`	round := t.join(r.f, resp.Header["Set-Cookie"], b)
`,
				`	round := r.early
`,
			},
		},
	},
	{
		name: "recent-life-is-proof",
		harm: "A session that was alive a second ago is not probed: the verdict is older than the replay that it releases.",
		by:   []string{"rate-limited"},
		edits: []edit{{"reconnect.go",
			`	if s.quietNow(held) && b.emptyWithin(emptyTimeout) {`,
			`	if s.quietNow(held) {`,
		}},
	},
	{
		name:   "earlier-probe-is-proof",
		harm:   "A replay that opens while a probe is on its way is released by that probe's answer, which may be older than its session's death.",
		unseen: "It takes a network in which a later answer overtakes an earlier one.",
		edits: []edit{
			{"rounds.go",
				`	r := s.next
	if r == nil {
		ctx, cancel`,
				`	r := s.running
	if r == nil {
		r = s.next
	}
	if r == nil {
		ctx, cancel`,
			},
		},
	},
	{
		name: "any-200-is-proof",
		harm: "A 200 without the response to the probe counts as life: an error page of a proxy releases a dead session's events.",
		by:   []string{"gateway"},
		edits: []edit{{"judge.go",
			`			j.detail = "the probe's answer is not the response to it"
`,
			`			j.verdict = Live
`,
		}},
	},
	{
		name: "any-error-is-proof",
		harm: "Every JSON-RPC error with the probe's id counts as life, also the one that says that there is no such session.",
		by:   []string{"refused-in-200"},
		edits: []edit{{"judge.go",
			`if err == nil && (code == methodNotFound || slices.Contains(j.liveCodes, code)) {`,
			`if err == nil || code == methodNotFound || slices.Contains(j.liveCodes, code) {`,
		}},
	},
	{
		name: "any-session-is-proof",
		harm: "An answer in the name of another session counts as life: the events of a session that was silently replaced are acted on.",
		by:   []string{"replaced-session"},
		edits: []edit{{"judge.go",
			`other != "" && other != sessionID {`,
			`other == sessionID+" " {`,
		}},
	},
	{
		name: "releases-on-ambiguous",
		harm: "Without a verdict the replay is released: a dead session's events are acted on while its store cannot be asked.",
		by:   []string{"gateway"},
		edits: []edit{{"reconnect.go",
			`	case a.verdict == Live:
		return r.release(resp, b, a, held)
`,
			`	case a.verdict != Dead:
		return r.release(resp, b, a, held)
`,
		}},
	},
	{
		name: "login-page-passes",
		harm: "A 200 that is no event stream is handed on as the answer to a reconnect: a client gives its living session up over a proxy's page.",
		by:   []string{"login-page"},
		edits: []edit{{"reconnect.go",
			`		case status/100 == 2 && status != http.StatusNoContent && status != http.StatusResetContent:
`,
			`		case status == http.StatusAccepted:
`,
		}},
	},
	{
		name: "overload-passes",
		harm: "A reconnect that is answered 503 is not tried again: a client gives its living session up while a server restarts.",
		by:   []string{"busy-server"},
		edits: []edit{{"reconnect.go",
			`		case status == http.StatusConflict || status == http.StatusTooManyRequests || status >= 500:
`,
			`		case status == http.StatusConflict:
`,
		}},
	},
	{
		name: "conflict-kills",
		harm: "409 to a reconnect, of a server that believes the old stream open, is taken for the death of the session.",
		by:   []string{"busy-server"},
		edits: []edit{{"transport.go",
			`func isGone(status int) bool { return status == http.StatusNotFound || status == http.StatusGone }`,
			`func isGone(status int) bool {
	return status == http.StatusNotFound || status == http.StatusGone || status == http.StatusConflict
}`,
		}},
	},
	{
		name: "400-kills",
		harm: "A request that is answered 400 is taken for the death of the session, for which the server only refused that request.",
		by:   []string{"late-answer"},
		edits: []edit{
			{"transport.go",
				`func isGone(status int) bool { return status == http.StatusNotFound || status == http.StatusGone }`,
				`func isGone(status int) bool {
	return status == http.StatusNotFound || status == http.StatusGone || status == http.StatusBadRequest
}`,
			},
			{"probe.go",
				`	if status == http.StatusNotFound || status == http.StatusGone {
		return true
	}
	for`,
				`	if isGone(status) {
		return true
	}
	for`,
			},
		},
	},
	{
		name: "401-kills",
		harm: "A probe that is answered 401, since a token has run out, is taken for the death of the session.",
		by:   []string{"undecided"},
		edits: []edit{{"probe.go",
			`	if status == http.StatusNotFound || status == http.StatusGone {
		return true
	}
	for`,
			`	if status == http.StatusNotFound || status == http.StatusGone || status == http.StatusUnauthorized {
		return true
	}
	for`,
		}},
	},
	{
		name: "503-kills",
		harm: "A probe that is answered 429 or 503, by a server that is busy, is taken for the death of the session.",
		by:   []string{"rate-limited"},
		edits: []edit{{"probe.go",
			`	if status == http.StatusNotFound || status == http.StatusGone {
		return true
	}
	for`,
			`	if status == http.StatusNotFound || status == http.StatusGone || transient(status) {
		return true
	}
	for`,
		}},
	},
	{
		name: "probe-has-no-cookies",
		harm: "The probe lacks the client's cookies: it reaches another replica, whose 404 says nothing, and a living session is given up.",
		by:   []string{"cookie-affinity"},
		edits: []edit{
			{"probe.go",
				`	for _, name := range []string{lastEventIDHeader, `,
				`	for _, name := range []string{"Cookie", lastEventIDHeader, `,
			},
			{"probe.go",
				`	applyCookies(req, cookies)
`,
				`	applyCookies(req, nil)
`,
			},
		},
	},
	{
		name: "retry-after-ignored",
		harm: "Probes do not wait for as long as a busy server asks: each reconnect sends it several more requests.",
		by:   []string{"rate-limited"},
		edits: []edit{{"rounds.go",
			`		wait := max(backoff(attempt), a.after)
`,
			`		wait := backoff(attempt)
`,
		}},
	},
	{
		name: "probe-unbounded",
		harm: "A probe that is never answered holds the replay for ever, and the client with it.",
		by:   []string{"long-replay"},
		edits: []edit{
			{"probe.go",
				`	ctx, cancel := context.WithTimeout(ctx, t.cfg.ProbeTimeout)
`,
				`	ctx, cancel := context.WithCancel(ctx)
`,
			},
			{"rounds.go",
				`	ctx, cancel := context.WithDeadline(r.ctx, deadline)
`,
				`	ctx, cancel := context.WithCancel(r.ctx)
`,
			},
			{"reconnect.go",
				`	timer := time.NewTimer(t.cfg.ProbeBudget + waitGrace)
`,
				`	timer := time.NewTimer(1000 * time.Hour)
`,
			},
		},
	},
	{
		name: "one-round-kills",
		harm: "One reconnect without a verdict is the end of a session that lives.",
		by:   []string{"undecided"},
		edits: []edit{{"session.go",
			`	return s.rounds >= most
`,
			`	return s.rounds >= min(most, 1)
`,
		}},
	},
	{
		name: "rounds-never-end",
		harm: "A session of which nobody can tell whether it lives is asked for for ever, and the application never learns that it is lost.",
		by:   []string{"gateway"},
		edits: []edit{{"session.go",
			`	return s.rounds >= most
`,
			`	return s.rounds < 0 && most > 0
`,
		}},
	},
	{
		name: "rounds-add-up",
		harm: "Rounds without a verdict are counted over a session's whole life, and not in a row: a session that lives long is given up.",
		by:   []string{"undecided"},
		edits: []edit{{"lease.go",
			`		s.lastLive = at
	}
	s.rounds = 0
`,
			`		s.lastLive = at
	}
`,
		}},
	},
	{
		name: "lease-never-ends",
		harm: "The liveness lease never runs out: what a stream brings is believed though its session died long ago.",
		by:   []string{"long-job"},
		edits: []edit{{"lease.go",
			`	return now.Sub(s.lastLive) >= lease
`,
			`	return now.Sub(s.lastLive) < 0 && lease > 0
`,
		}},
	},
}
