// Package sse finds the events in a server-sent event stream that somebody
// else reads.
//
// It is for a program that stands between a server and a client and must know
// where events end, and what some of them say, without becoming a third
// opinion about the bytes: [Splitter] only counts, it never copies, changes or
// reorders them. It takes a stream in whatever pieces it arrives, and any
// cutting of the same bytes yields the same events. [Parse] reads one event
// that a Splitter has delimited, [Strip] takes the cursor out of one, and
// [Cursor] writes one that is nothing but a cursor.
//
// The grammar is that of WHATWG HTML, #event-stream-interpretation, to the
// letter, with one omission: the bytes are not decoded, so what is not valid
// UTF-8 stays as it came. The package is not a client: it does not reconnect,
// decode JSON, or buffer what is unfinished, which remains with the caller.
package sse
