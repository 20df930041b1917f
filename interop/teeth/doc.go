// Package teeth asks whether the experiments of the library can fail. It breaks
// the middleware on purpose, in one way after another that a real bug could
// have, and has at least one experiment refute each broken version, while the
// same experiment upholds the real one. It has tests only.
//
// A broken version is a mutant: a few texts of the middleware's own source, each
// with what stands in its place. It is compiled into a binary of cmd/revenant in
// a temporary folder, by the overlay of the go command, so that nothing in the
// tree changes. Each text has to occur exactly once: who changes the code under
// a mutant is told so by a test, and changes the mutant, too.
//
// A mutant is refuted by an experiment if that deviates. One that is inconclusive
// has shown nothing. scripts/teeth.sh tries each mutant in every experiment.
package teeth
