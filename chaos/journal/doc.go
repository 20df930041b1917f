// Package journal is the record of an experiment's run: what was broken and
// when, what each arm's clients saw, what was measured and how it compares with
// the hypothesis. It is written as JSON, as JUnit XML for CI, and as one HTML
// page that needs nothing beside it. The package renders what it is given; it
// runs nothing and judges nothing.
//
// # The JSON
//
// The shape is that of Chaos Toolkit's journal, where that has a field: experiment,
// status, deviated, start, end, duration, platform, node, steady_states with
// before and after and their probes, run and rollbacks with their activities.
// What is ours has names of its own beside them. As there,
//
//   - an instant is a string, RFC 3339 in UTC;
//   - a length of time is a number, in seconds, with up to nine decimals. That holds
//     for every one of them, of the wall clock and of the experiment's time alike.
//
// journal_version is [Version]. A field that is new does not change it: a reader
// ignores fields that it does not know. It changes when a field changes its
// meaning or goes. [Read] refuses any other version, and a file that has none,
// such as the journal of Chaos Toolkit itself, with a [*FormatError].
//
// # Secrets
//
// Nothing here knows what is a secret: whoever fills a [Journal] in is
// responsible for what is in it. A session id is a credential on many servers,
// so it is abbreviated before it comes in, by [Abbreviate]; a header, a token and
// the contents of an event do not come in at all. What does come in is shown as
// text: the page and the XML escape everything, and the page may run no script
// and load nothing.
package journal
