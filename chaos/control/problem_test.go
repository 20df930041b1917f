package control_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// problemTypes are all kinds of problems, as the source has them.
func problemTypes(t *testing.T) (types []control.ProblemType) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "problem.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && strings.HasPrefix(lit.Value, `"urn:revenant:`) {
			text, _ := strconv.Unquote(lit.Value)
			types = append(types, control.ProblemType(text))
		}
		return true
	})
	return types
}

func TestEveryKindOfProblemHasATitleAndAStatus(t *testing.T) {
	types, seen := problemTypes(t), map[int]control.ProblemType{}
	if len(types) < 12 {
		t.Fatalf("kinds %q: where have they gone?", types)
	}
	for _, of := range types {
		p := control.NewProblem(of, "%d", 1)
		if p.Title == "" || http.StatusText(p.Status) == "" || p.Status < 400 || p.Detail != "1" || p.Type != of {
			t.Errorf("%s: %+v", of, p)
		}
		if other, ok := seen[p.Status]; ok {
			t.Errorf("%s and %s both have status %d", of, other, p.Status)
		}
		seen[p.Status] = of
		if !strings.Contains(control.OpenAPI(), "- "+string(of)+"\n") {
			t.Errorf("%s is not described in openapi.yaml", of)
		}
	}
}

func TestProblemAsAnError(t *testing.T) {
	p := control.NewProblem(control.Invalid, "two fields")
	p.Fields = []control.FieldError{{Field: "a", Detail: "is 1"}, {Field: "b.c", Detail: "is 2"}}
	if got, want := p.Error(), "not valid: two fields\na: is 1\nb.c: is 2"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	wrapped := fmt.Errorf("put: %w", p)
	if !control.Is(wrapped, control.Invalid) || control.Is(wrapped, control.Stale) || control.Is(errors.New("x"), control.Invalid) || control.Is(nil, control.Invalid) {
		t.Error("Is() does not tell problems apart")
	}
}

func TestChecksAreSpelledAsEverythingElse(t *testing.T) {
	checks := control.Checks{{Arm: "control", Client: "gosdk", Measure: "events_lost", Value: "3", Tolerance: "0", Met: true, Problem: "p"}}
	data, err := json.Marshal(control.Run{Checks: checks})
	const want = `"checks":[{"arm":"control","client":"gosdk","measure":"events_lost","value":"3","tolerance":"0","met":true,"problem":"p"}]`
	if err != nil || !strings.Contains(string(data), want) {
		t.Errorf("JSON %s, %v, want %s in it", data, err, want)
	}
	var back control.Run
	if err := json.Unmarshal(data, &back); err != nil || len(back.Checks) != 1 || back.Checks[0] != checks[0] {
		t.Errorf("back: %+v, %v", back.Checks, err)
	}
	if data, _ := json.Marshal(control.Run{}); strings.Contains(string(data), "checks") {
		t.Errorf("JSON %s, want no checks where there are none", data)
	}
	if err := json.Unmarshal([]byte(`{"checks":3}`), &back); err == nil {
		t.Error("checks that are a number: no error")
	}
}
