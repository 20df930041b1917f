// Package experiment is what an experiment of the chaos suite is: the definition
// that people write, the check that it can be meant, and the plan of what running
// it would do.
//
// A [Definition] has a topology (servers, a load balancer, links, a network), two
// arms of the same clients, of which the protected one has the middleware, a
// method on a timeline, and a hypothesis of what each arm will measure. The
// control arm's is the experiment's teeth: an experiment whose control arm does
// not fail has shown nothing.
//
// [Load] and [Parse] read a definition from YAML. They are strict, report all
// problems at once, each with its place and what would be right, and start
// nothing. [Schema] is the JSON Schema of the same types, for editors. A
// [Definition] may be written in Go as well; [Definition.Validate] then says what
// Parse would.
//
// # Time
//
// Every [Duration] is in the record's time: the time of the incident that the
// experiment replays. [Definition.TimeScale] says how many times faster it runs,
// and [Definition.Real] how long something then takes. What gets so short that
// the pauses of an ordinary machine would decide about it is refused.
//
// # What stands where
//
// Each kind of client, in each arm, has servers, a load balancer and links of its
// own, so that nothing but the middleware differs between two arms, and no kind of
// client has to do with another. [Definition.Servers], [Definition.Balancer],
// [Definition.Guard] and the methods of the steps return the settings of the
// packages that do the work, in real time.
package experiment
