// Package engine runs experiments: it builds what a definition describes, out of
// real servers, load balancers, links and clients, carries the method out on its
// timeline, takes everything apart again, and returns the journal with the
// verdict.
//
// Each kind of client has, in each arm, a topology of its own, which the package
// calls a cell; all cells run at the same time by the same clock, so that what
// disturbs one disturbs all. Nothing here decides what was right: package history
// counts, and the tolerances of the definition say what the numbers ought to be.
//
// # Verdicts
//
//   - upheld: the control arm failed as the hypothesis says, and the protected arm
//     held.
//   - deviated: the control arm failed, and the protected one did not hold.
//   - inconclusive: nothing was shown. The control arm did not fail as it should
//     have, the steady state was not reached, a step failed, a count's assumption
//     did not hold, a checker panicked, an arm was left out, or this machine lacks
//     what the experiment needs.
//   - aborted: a bound of the definition, its time limit, or whoever asked for the
//     run stopped it.
//
// # What is undone
//
// Whatever ends a run, an abort, a panic of a checker or the end of the context,
// faults and rules are undone first, then the rollbacks are done, and then all is
// stopped: when [Run] returns, nothing that it started runs any more. Where the
// process itself is killed, the kernel takes back what it held for it, and each
// load balancer's program dies with its owner.
package engine
