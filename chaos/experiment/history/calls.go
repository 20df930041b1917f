package history

import (
	"github.com/revenant-mcp/revenant/chaos/experiment/client"
)

// Prompts is how often persons were asked.
type Prompts struct {
	// Max is how often one request of the server's was put to its person at the
	// most, 0 if none was.
	Max int `json:"max"`
	// All counts all prompts.
	All int `json:"all"`
	// Times has, for each number of times, how many requests were put to their
	// person so often. It has no 0.
	Times map[int]int `json:"times"`
	// Withdrawn counts prompts that were taken away before they were answered.
	Withdrawn int `json:"withdrawn"`
}

// PromptsForOneRequest counts how often persons were asked for one request.
func PromptsForOneRequest(h *History) (Prompts, error) {
	return count(h, []assumption{complete, clocks, stamped}, func(x *index) (Prompts, Problems) {
		p := Prompts{Times: map[int]int{}}
		type request struct{ client, seq int }
		times := map[request]int{}
		for i, c := range x.Clients {
			for _, one := range c.Prompts {
				p.All++
				times[request{i, one.Stamp.Seq}]++
				if one.Withdrawn != nil {
					p.Withdrawn++
				}
			}
		}
		for _, n := range times {
			p.Times[n]++
			p.Max = max(p.Max, n)
		}
		return p, nil
	})
}

// CallsAnswered counts the tool calls that were answered with a result that does
// not say itself that it is an error.
func CallsAnswered(h *History) (int, error) {
	return count(h, []assumption{complete}, func(x *index) (n int, _ Problems) {
		for _, c := range x.Clients {
			for _, k := range c.Calls {
				if k.How == client.Result {
					n++
				}
			}
		}
		return n, nil
	})
}

// StaleAnswers counts the answers that the server got to requests for which it
// did not wait.
func StaleAnswers(h *History) (int, error) {
	return count(h, []assumption{complete}, func(x *index) (n int, _ Problems) {
		for _, a := range x.Oracle.Answers {
			if !a.Taken {
				n++
			}
		}
		return n, nil
	})
}

// CallsHanging counts the tool calls that were open at the end of the run, or were
// given up. Each that is open has to have had History.Patience: one that has not
// might yet be answered.
func CallsHanging(h *History) (int, error) {
	return count(h, []assumption{complete}, func(x *index) (n int, _ Problems) {
		early := &findings{assumption: "the run was long enough"}
		for _, c := range x.Clients {
			for _, k := range c.Calls {
				if k.Ended != nil && k.How != client.Hanging {
					continue
				}
				n++
				if k.Ended == nil && x.End-k.At < x.patience() {
					early.add("call %d of %s is open, and began %v before the end, less than %v", k.Ref, c.Name, x.End-k.At, x.patience())
				}
			}
		}
		return n, early.problems()
	})
}

// Failures counts tool calls that have failed, by kind. Hanging ones are not
// among them.
type Failures struct {
	Stale     int `json:"stale"`     // by the JSON-RPC error −32001, the middleware's
	RPC       int `json:"rpc"`       // by any other JSON-RPC error
	Session   int `json:"session"`   // by the client's error for a session that is over
	Transport int `json:"transport"` // by any other error of the client's
	Tool      int `json:"tool"`      // the tool says itself that it has failed
}

// Total is all of them.
func (f Failures) Total() int { return f.Stale + f.RPC + f.Session + f.Transport + f.Tool }

// CallsFailed counts the tool calls that have failed.
func CallsFailed(h *History) (Failures, error) {
	return count(h, []assumption{complete}, func(x *index) (f Failures, _ Problems) {
		unknown := &findings{assumption: "every outcome of a call is known"}
		for _, c := range x.Clients {
			for _, k := range c.Calls {
				switch {
				case k.Ended == nil, k.How == client.Hanging, k.How == client.Result:
				case k.How == client.RPCError && k.Code == client.StaleCode:
					f.Stale++
				case k.How == client.RPCError:
					f.RPC++
				case k.How == client.SessionError:
					f.Session++
				case k.How == client.TransportError:
					f.Transport++
				case k.How == client.ToolError:
					f.Tool++
				default:
					unknown.add("call %d of %s ended as %q", k.Ref, c.Name, k.How)
				}
			}
		}
		return f, unknown.problems()
	})
}
