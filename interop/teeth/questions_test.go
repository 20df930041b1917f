package teeth_test

// questions are mutants that treat the requests of the server otherwise.
var questions = []mutant{
	{
		name: "no-ledger",
		harm: "Requests of the server are not followed: a person is asked the same at each reconnect, and the call never ends.",
		by:   []string{"late-answer"},
		edits: []edit{{"transport.go",
			`	if t.cfg.Pending != PendingOff {
`,
			`	if t == nil {
`,
		}},
	},
	{
		name: "stale-call-hangs",
		harm: "A question for which nobody waits is kept back, and the call that asked it is never failed: it hangs.",
		by:   []string{"late-answer"},
		edits: []edit{{"ledger.go",
			`	l.finishLocked(p.call)
	return fail
`,
			`	l.finishLocked(p.call)
	return suppress
`,
		}},
	},
	{
		name: "first-prompt-lost",
		harm: "A question that a replay brings first counts as asked: nobody is ever asked it.",
		by:   []string{"three-questions"},
		edits: []edit{{"ledger.go",
			`		l.deliverLocked(p, at.given)
		return pass, nil
	case at.moot:
`,
			`		if at.replay {
			l.settleLocked(p)
			return suppress, nil
		}
		l.deliverLocked(p, at.given)
		return pass, nil
	case at.moot:
`,
		}},
	},
	{
		name: "withdrawn-is-asked",
		harm: "A question that comes together with its own withdrawal is put to the person all the same.",
		by:   []string{"withdrawn-question"},
		edits: []edit{{"ledger.go",
			`	case p == nil && (at.moot || callFailed):
`,
			`	case p == nil && callFailed:
`,
		}},
	},
	{
		name: "refusal-is-shown",
		harm: "A server's 400 to an answer for which it does not wait reaches the client, which takes it for the end of its session.",
		by:   []string{"late-answer"},
		edits: []edit{{"reply.go",
			`	if !hide {
		return nil
	}
`,
			`	if !hide || first != nil || first == nil {
		return nil
	}
`,
		}},
	},
	{
		name: "stale-without-grace",
		harm: "A call that works on after its question was answered is failed at the first replay of that question.",
		by:   []string{"answered-question"},
		edits: []edit{{"ledger.go",
			`		if p.replays >= staleReplays && at.now.Sub(last) >= l.grace {
`,
			`		if p.replays >= 1 || last.IsZero() {
`,
		}},
	},
	{
		name: "stale-while-asking",
		harm: "A call that waits for the answer to its next question is failed, since the one before is replayed and nothing else comes.",
		by:   []string{"three-questions"},
		edits: []edit{{"ledger.go",
			`		last, asks := l.callLocked(p.call)
`,
			`		last, asks := p.at, false
`,
		}},
	},
	{
		name: "lost-answer-is-taken",
		harm: "An answer that was lost on the way counts as taken: the server's question is kept back while it waits, and the call hangs.",
		by:   []string{"lost-answer"},
		edits: []edit{{"ledger.go",
			`	case unanswered:
		p.state = lost
`,
			`	case unanswered:
		p.state, p.at, p.replays, p.mark = answered, now, 0, p.passed()
`,
		}},
	},
	{
		name: "assertion-ignored",
		harm: "A server that says in its replay that it still waits is not believed: the call fails, though its question is open.",
		by:   []string{"lost-answer"},
		edits: []edit{{"ledger.go",
			`		if at.asserted && !p.given.lost {
`,
			`		if at.asserted && p.given.lost {
`,
		}},
	},
}
