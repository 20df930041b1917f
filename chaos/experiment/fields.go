package experiment

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/revenant-mcp/revenant/chaos/fault"
	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// field is a key of a mapping in a definition, as the type of the mapping has it.
type field struct {
	name  string // the key
	index []int  // of the Go field, through embedded structs
	typ   reflect.Type
	check check
}

// check is the tag of a field: what its value has to be, whatever the rest of the
// definition says. The loader and the schema both go by it.
type check struct {
	required bool
	min, max *float64       // of a number; max of a text or a list: its length
	pattern  *regexp.Regexp // of a text
	real     time.Duration  // the least that a duration may be in real time
	seconds  bool           // whole seconds, in real time too
}

// durationPattern is what a duration has to look like.
var durationPattern = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`)

var fieldCache sync.Map // reflect.Type to []field

// fieldsOf returns the keys of a struct type, those of embedded structs included.
func fieldsOf(t reflect.Type) []field {
	if cached, ok := fieldCache.Load(t); ok {
		return cached.([]field)
	}
	var all []field
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			for _, inner := range fieldsOf(f.Type) {
				inner.index = append([]int{i}, inner.index...)
				all = append(all, inner)
			}
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "" {
			continue
		}
		all = append(all, field{name, []int{i}, f.Type, parseCheck(f.Tag.Get("check"))})
	}
	fieldCache.Store(t, all)
	return all
}

// parseCheck reads a tag. What comes after "pattern=" is the pattern, to the end.
func parseCheck(tag string) (c check) {
	for tag != "" {
		var item string
		if strings.HasPrefix(tag, "pattern=") {
			item, tag = tag, ""
		} else {
			item, tag, _ = strings.Cut(tag, ",")
		}
		key, value, _ := strings.Cut(item, "=")
		switch key {
		case "required":
			c.required = true
		case "min", "max":
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				panic(fmt.Sprintf("experiment: tag %q: %v", item, err))
			}
			if key == "min" {
				c.min = &n
			} else {
				c.max = &n
			}
		case "pattern":
			c.pattern = regexp.MustCompile(value)
		case "real":
			d, err := time.ParseDuration(value)
			if err != nil {
				panic(fmt.Sprintf("experiment: tag %q: %v", item, err))
			}
			c.real = d
		case "seconds":
			c.seconds = true
		default:
			panic(fmt.Sprintf("experiment: tag %q is none", item))
		}
	}
	return c
}

// fault is what is wrong with a value, "" for nothing. Texts and lists are judged
// by their length.
func (c check) fault(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		s := v.String()
		switch {
		case c.required && strings.TrimSpace(s) == "":
			return "is empty, want a text"
		case c.max != nil && float64(len([]rune(s))) > *c.max:
			return fmt.Sprintf("has %d characters, want at most %v", len([]rune(s)), *c.max)
		case c.pattern != nil && !c.pattern.MatchString(s):
			return fmt.Sprintf("is %s, want %s", quote(s), patternWords(c.pattern.String()))
		}
	case reflect.Slice:
		switch {
		case c.required && v.Len() == 0:
			return "is empty, want at least one"
		case c.max != nil && float64(v.Len()) > *c.max:
			return fmt.Sprintf("has %d entries, want at most %v", v.Len(), *c.max)
		}
	case reflect.Int, reflect.Int64:
		return c.outside(float64(v.Int()))
	case reflect.Uint64:
		return c.outside(float64(v.Uint()))
	case reflect.Float64:
		return c.outside(v.Float())
	}
	return ""
}

func (c check) outside(n float64) string {
	text := strconv.FormatFloat(n, 'f', -1, 64)
	bound := func(b *float64) string { return strconv.FormatFloat(*b, 'f', -1, 64) }
	switch {
	case c.min == nil && c.max == nil:
		return ""
	case n != n, c.min != nil && n < *c.min, c.max != nil && n > *c.max:
	default:
		return ""
	}
	if c.max == nil {
		return fmt.Sprintf("is %s, want %s or more", text, bound(c.min))
	}
	return fmt.Sprintf("is %s, want from %s to %s", text, bound(c.min), bound(c.max))
}

// patternWords says what a pattern of a tag asks for.
func patternWords(pattern string) string {
	switch {
	case strings.Contains(pattern, `\r\n`):
		return "one line"
	case strings.Contains(pattern, "_"):
		return "lower-case letters, digits and underscores, a letter first"
	}
	return "lower-case letters, digits and single dashes between them"
}

// texts lists what the values of a type may be called, nil if its texts are not
// all known. It is for types that are read from text.
func texts(t reflect.Type) []string { return textsOf[t] }

// textsOf lists the texts of the types that have only so many.
var textsOf = map[reflect.Type][]string{
	typeOf[ClientKind]():   of(ClientKinds()),
	typeOf[LinkName]():     {string(Front), string(Back)},
	typeOf[Network]():      {string(Loopback), string(Namespaces)},
	typeOf[OnSessionEnd](): {string(Initialize), string(DoNothing)},
	typeOf[PersonAction](): {string(Accept), string(Decline), string(Cancel), string(Never)},
	typeOf[Pending]():      {string(Reconcile), string(Strict), string(Off)},
	typeOf[Terminal]():     {string(Response), string(TerminalFail)},
	typeOf[When]():         {string(WhenAway), string(WhenBack)},
	typeOf[Leaving]():      {string(Delete), string(Vanish)},
	typeOf[Target]():       {string(OnFront), string(OnBack), string(OnNetwork)},
	typeOf[Tool]():         of(Tools()),

	typeOf[lb.Engine]():       of(lb.Engines()),
	typeOf[lb.Mode]():         {string(lb.HTTP), string(lb.TCP)},
	typeOf[lb.Profile]():      of(lb.Profiles()),
	typeOf[lb.Balance]():      {string(lb.RoundRobin), string(lb.CookieAffinity), string(lb.SessionAffinity)},
	typeOf[fault.Kind]():      of(fault.Kinds()),
	typeOf[fault.Direction](): {string(fault.ToClient), string(fault.ToServer)},
	typeOf[fault.How]():       {string(fault.HowRST), string(fault.HowBlackhole)},

	typeOf[mcpserver.Refresh]():        constants[mcpserver.Refresh](),
	typeOf[mcpserver.UnknownSession](): constants[mcpserver.UnknownSession](),
	typeOf[mcpserver.Conflict]():       constants[mcpserver.Conflict](),
	typeOf[mcpserver.Replay]():         constants[mcpserver.Replay](),
	typeOf[mcpserver.OnBreak]():        constants[mcpserver.OnBreak](),
	typeOf[mcpserver.On]():             constants[mcpserver.On](),
	typeOf[mcpserver.Count]():          constants[mcpserver.Count](),
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// of is names as texts.
func of[T ~string](names []T) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = string(name)
	}
	return all
}

// constants lists the texts of a type whose values are counted from 0 and that
// has no text for any other.
func constants[T interface {
	~uint8
	MarshalText() ([]byte, error)
}]() (all []string) {
	for v := T(0); ; v++ {
		text, err := v.MarshalText()
		if err != nil {
			return all
		}
		all = append(all, string(text))
	}
}

// expiryTexts are those of [lb.Expiry] beside the statuses.
var expiryTexts = func() (all []string) {
	for e := lb.FIN; e <= lb.SilentThenRST; e++ {
		all = append(all, e.String())
	}
	return all
}()

// quote puts a text into an error: on one line, and not too long.
func quote(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return strconv.Quote(s)
}

// knownKeys is where in a definition each key may stand, as paths of mappings
// without indices, "" being the top.
var knownKeys = sync.OnceValue(func() map[string][]string {
	known := make(map[string][]string)
	var walk func(t reflect.Type, path string)
	walk = func(t reflect.Type, path string) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || t == typeOf[Expectations]() {
			return
		}
		for _, f := range fieldsOf(t) {
			if !slices.Contains(known[f.name], path) {
				known[f.name] = append(known[f.name], path)
			}
			walk(f.typ, join(path, f.name))
		}
	}
	walk(typeOf[Definition](), "")
	return known
})

// join adds a key to a path.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
