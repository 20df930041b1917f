package experiment

import (
	_ "embed"
	"slices"
)

//go:generate go test -run ^TestSchema$ -update

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of a [Definition], for editors:
// it is made of the types of this package and their comments, and a test fails
// where it is not. What it refuses, [Parse] refuses; Parse also refuses what one
// key says against another.
func Schema() []byte { return slices.Clone(schema) }
