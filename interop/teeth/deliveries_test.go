package teeth_test

// deliveries are mutants that hand on something else than the server has sent.
var deliveries = []mutant{
	{
		name: "drops-an-event",
		harm: "The first of several held events is lost at the release, and no reconnect brings it again.",
		by:   []string{"cookie-affinity"},
		edits: []edit{{"hold.go",
			`	events, size = b.events, b.whole
	if len(extra) > 0 {
`,
			`	held := slices.DeleteFunc(blocksOf(b.buf[:b.whole]), func(b block) bool { return len(b.event.Data) == 0 })
	if len(held) > 1 {
		b.buf = slices.Delete(b.buf, held[0].start, held[0].end)
		b.whole -= held[0].end - held[0].start
	}
	events, size = b.events, b.whole
	if len(extra) > 0 {
`,
		}},
	},
	{
		name: "repeats-events",
		harm: "What was held is handed on twice: the application acts on each event of a replay twice.",
		by:   []string{"cookie-affinity"},
		edits: []edit{{"hold.go",
			`	events, size = b.events, b.whole
	if len(extra) > 0 {
`,
			`	b.buf = slices.Insert(b.buf, b.whole, slices.Clone(b.buf[:b.whole])...)
	b.whole *= 2
	events, size = b.events, b.whole
	if len(extra) > 0 {
`,
		}},
	},
	{
		name: "reorders-events",
		harm: "The held events are handed on in another order than they came.",
		by:   []string{"cookie-affinity"},
		edits: []edit{{"hold.go",
			`	events, size = b.events, b.whole
	if len(extra) > 0 {
`,
			`	held := slices.DeleteFunc(blocksOf(b.buf[:b.whole]), func(b block) bool { return len(b.event.Data) == 0 })
	if len(held) > 1 {
		first := slices.Clone(b.buf[held[0].start:held[0].end])
		b.buf = slices.Insert(b.buf, b.whole, first...)
		b.buf = slices.Delete(b.buf, held[0].start, held[0].end)
	}
	events, size = b.events, b.whole
	if len(extra) > 0 {
`,
		}},
	},
	{
		name: "drops-what-is-too-much",
		harm: "What exceeds MaxHeldBytes is thrown away, where the reading should stop: a long replay loses its beginning.",
		by:   []string{"long-replay"},
		edits: []edit{{"hold.go",
			`			b.cond.Wait()
		}
		if b.released`,
			`			b.buf, b.whole = b.buf[:0], 0
		}
		if b.released`,
		}},
	},
	{
		name: "tears-an-event",
		harm: "An event that was cut off is handed on as far as it came, and its stream ends as if that were all.",
		by:   []string{"torn-event"},
		edits: []edit{
			{"body.go",
				`	b.end = err
	if dead := b.f.aborted(); dead != nil {
		b.end = dead
	} else if err == io.EOF && b.splitter.Torn() {
		b.end = io.ErrUnexpectedEOF
	}
`,
				`	b.end = io.EOF
	b.whole = len(b.buf)
	if dead := b.f.aborted(); dead != nil {
		b.end = dead
	}
`,
			},
		},
	},
	{
		name: "cursor-not-restored",
		harm: "A client that has lost its cursor is not given it back: what it missed in between never comes.",
		by:   []string{"cookie-affinity"},
		edits: []edit{{"reconnect.go",
			`		r.cursor, r.restored = r.st.cursor, r.st.cursor != ""
`,
			`		r.restored = false
`,
		}},
	},
	{
		name: "come-back-has-no-cursor",
		harm: "A client that is asked to come back later is not told where it stands: it cannot resume the stream of its call.",
		by:   []string{"undecided"},
		edits: []edit{{"response.go",
			`sse.Cursor(cursor, retry)...)`,
			`sse.Cursor("", retry)...)`,
		}},
	},
}
