package teeth_test

// deaths are mutants that do not end a session as they should.
var deaths = []mutant{
	{
		name: "no-fence",
		harm: "Requests with the id of a dead session reach the wire: each stream asks for itself, again and again.",
		by:   []string{"calls-in-flight"},
		edits: []edit{{"transport.go",
			`	if fence, ok := t.fences.get(k); ok {
		return nil, fence
	}
`,
			``,
		}},
	},
	{
		name: "no-cancellation",
		harm: "What is in flight when a session is found dead is left to itself: calls hang until somebody gives up.",
		by:   []string{"calls-in-flight"},
		edits: []edit{
			{"kill.go",
				`	for _, f := range victims {
		f.cancel(lost)
	}
`,
				`	_, _ = victims, lost
`,
			},
			{"kill.go",
				`	for _, b := range bodies {
		returned = append(returned, b.fail(lost))
	}
`,
				``,
			},
		},
	},
	{
		name:   "no-wait-for-flights",
		harm:   "The client hears of the death while requests of the old session are still under way, and its initialize meets them.",
		unseen: "What was cancelled returns sooner than a client can react, where the Base below honours its context.",
		edits: []edit{{"kill.go",
			`	waitAll(append(returned, drained))
`,
			`	_ = append(returned, drained)
`,
		}},
	},
	{
		name: "death-looks-like-a-break",
		harm: "The end of a session is told as a broken connection: the client reconnects until it gives up, and nobody knows why.",
		by:   []string{"replicas"},
		edits: []edit{{"response.go",
			`	if t.cfg.Terminal == TerminalError {
		return nil, e
	}
`,
			`	if e.Err != nil {
		return nil, io.ErrUnexpectedEOF
	}
`,
		}},
	},
	{
		name: "a-probe-per-stream",
		harm: "Streams that reconnect at the same moment are probed one by one: a server that loses many sessions is asked as many times more.",
		by:   []string{"calls-in-flight"},
		edits: []edit{{"rounds.go",
			`	r := s.next
	if r == nil {
		ctx, cancel := context.WithCancel(context.WithoutCancel(from.Context()))
		r = &round{from: from, cookies: cookies, ctx: ctx, cancel: cancel, done: make(chan struct{})}
		s.next = r
		if !s.probing {
			s.probing = true
			go t.probeRounds(s)
		}
	}
	r.waiters++
`,
			`	ctx, cancel := context.WithCancel(context.WithoutCancel(from.Context()))
	r := &round{from: from, cookies: cookies, ctx: ctx, cancel: cancel, done: make(chan struct{})}
	go func() {
		settle := t.run(s, r)
		close(r.done)
		settle()
		r.cancel()
	}()
	r.waiters++
`,
		}},
	},
}
