package control_test

import (
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/control"
)

func TestNames(t *testing.T) {
	for _, test := range []struct {
		text     string
		name, id bool
	}{
		{"a", true, true}, {"shop-2", true, true}, {"0", true, true}, {"a-b-c", true, true},
		{strings.Repeat("a", 63), true, true}, {strings.Repeat("a", 64), false, true}, {strings.Repeat("a", 65), false, false},
		{"", false, false}, {"-a", false, true}, {"a-", false, true}, {"a--b", false, true}, {"A", false, true}, {"a_b", false, true},
		{"a.b", false, false}, {"..", false, false}, {"a/b", false, false}, {`a\b`, false, false}, {"a b", false, false}, {"ä", false, false},
		{"a\x00", false, false}, {"a\n", false, false}, {"@", false, false}, {"[", false, false}, {"`", false, false}, {"{", false, false},
	} {
		if got := control.ValidName(test.text); got != test.name {
			t.Errorf("ValidName(%q) = %v, want %v", test.text, got, test.name)
		}
		if got := control.ValidID(test.text); got != test.id {
			t.Errorf("ValidID(%q) = %v, want %v", test.text, got, test.id)
		}
	}
}

func TestIdempotencyKeys(t *testing.T) {
	for key, want := range map[string]bool{"": true, "a!~": true, strings.Repeat("k", 128): true, strings.Repeat("k", 129): false, "a b": false, "a\r\nb": false, "ü": false, "\x7f": false} {
		if got := control.ValidIdempotencyKey(key); got != want {
			t.Errorf("ValidIdempotencyKey(%q) = %v, want %v", key, got, want)
		}
	}
}
