package control

import (
	"encoding/json"

	"github.com/revenant-mcp/revenant/chaos/journal"
)

// Checks are a journal's checks, with JSON like everything else here.
type Checks []journal.Check

// wireCheck is the JSON of a check.
type wireCheck struct {
	Arm       string `json:"arm"`
	Client    string `json:"client"`
	Measure   string `json:"measure"`
	Value     string `json:"value"`
	Tolerance string `json:"tolerance"`
	Met       bool   `json:"met"`
	Problem   string `json:"problem,omitempty"`
}

// MarshalJSON writes a list.
func (c Checks) MarshalJSON() ([]byte, error) {
	wire := make([]wireCheck, len(c))
	for i, check := range c {
		wire[i] = wireCheck(check)
	}
	return json.Marshal(wire)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Checks) UnmarshalJSON(data []byte) error {
	var wire []wireCheck
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	checks := make(Checks, len(wire))
	for i, check := range wire {
		checks[i] = journal.Check(check)
	}
	*c = checks
	return nil
}
