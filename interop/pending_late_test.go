package interop_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// A replay whose first event comes a moment after the answer's header, and after
// the probe's answer, is a replay all the same: DESIGN 4.5 has PendingStrict
// refuse every request in it, and a withdrawn one dropped.
func TestARequestInAReplayThatIsSlowerThanTheProbe(t *testing.T) {
	const withdrawn = "id: b10\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":12}}\n\n"
	for what, test := range map[string]struct {
		policy middleware.Pending
		behind string
	}{
		"strict":    {middleware.PendingStrict, ""},
		"withdrawn": {middleware.PendingReconcile, withdrawn},
	} {
		t.Run(what, func(t *testing.T) {
			eachGateway(t, middleware.Config{Pending: test.policy}, nil, func(t *testing.T, b *bed, g *gateway, a *arm, sdk string) {
				g.get = func(w http.ResponseWriter, r *http.Request, n int) {
					if n == 1 {
						open(w, "retry: 1000\n\n", note("a1", "one"))
						pause(r.Context(), 5*time.Second)
						return
					}
					open(w)
					pause(r.Context(), 5*time.Millisecond)
					say(w, note("a2", fmt.Sprint("round ", n))+question("b9", "12")+test.behind)
					<-r.Context().Done()
				}
				p := &person{thinks: always(time.Second)}
				a.connectAsked(sdk, p)
				b.until(minute)
				if a.guard != nil {
					p.checkPrompts(t, 0)
				}
			})
		})
	}
}
