package experiment

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The bounds of what is read. A definition of a thousand lines is well below
// them.
const (
	// MaxFileSize is the largest file that is read, in bytes.
	MaxFileSize = 128 << 10

	maxTokens = 20_000
	maxDepth  = 32
	// maxNodes is how many values there may be when all aliases are followed.
	maxNodes = 20_000
)

// Load reads a definition from a file. What is wrong with it is a [Problems] with
// everything at once; an error of another kind says that the file cannot be read.
func Load(file string) (*Definition, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("experiment: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("experiment: %w", err)
	}
	return Parse(file, data)
}

// Parse reads a definition from YAML, of which JSON is a part. name is what the
// problems call the file. The error is a [Problems], with everything that is wrong
// at once.
func Parse(name string, data []byte) (*Definition, error) {
	return ParseWith(name, data, func(*Definition) {})
}

// open returns a decoder of a text and the value that the text is.
func open(name string, data []byte) (*decoder, ast.Node, error) {
	whole := func(format string, args ...any) error {
		return Problems{{File: name, Message: fmt.Sprintf(format, args...)}}
	}
	if len(data) > MaxFileSize {
		return nil, nil, whole("is larger than %d KiB, which no definition is", MaxFileSize>>10)
	}
	if !utf8.Valid(data) {
		return nil, nil, whole("is not UTF-8 text")
	}
	text := strings.TrimPrefix(strings.ReplaceAll(string(data), "\r\n", "\n"), "\ufeff")
	d := &decoder{file: name, lines: strings.Split(text, "\n"), anchors: map[string]ast.Node{}, expanding: map[string]bool{}, places: map[string]spot{}}
	body, err := d.parse(text)
	return d, body, err
}

// parse returns the one document in text. It looks at the tokens first: the
// parser follows every nesting.
func (d *decoder) parse(text string) (body ast.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			body, err = nil, Problems{{File: d.file, Message: "is text that the YAML parser cannot read"}}
		}
	}()
	tokens := lexer.Tokenize(text)
	if at := tooDeep(tokens); at != nil {
		return nil, Problems{d.at(spotOf(at), "", "is nested too deep, or too long, for a definition")}
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if syntax := (*yaml.SyntaxError)(nil); errors.As(err, &syntax) {
		return nil, Problems{d.at(spotOf(syntax.Token), "", "is no YAML here: "+plainText(syntax.Message))}
	}
	if err != nil {
		return nil, Problems{{File: d.file, Message: "is no YAML: " + plainText(err.Error())}}
	}
	var bodies []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.CommentType {
			bodies = append(bodies, doc.Body)
		}
	}
	switch len(bodies) {
	case 0:
		return nil, Problems{{File: d.file, Message: "is empty, want a definition"}}
	case 1:
		return bodies[0], nil
	}
	return nil, Problems{d.at(spotOf(start(bodies[1])), "", "begins another document, want one definition in a file")}
}

// tooDeep returns the token at which a text is nested deeper than definitions
// are, or too long.
func tooDeep(tokens token.Tokens) *token.Token {
	var flow, onLine, line int
	var columns []int // of the block entries that are open
	for i, t := range tokens {
		if i > maxTokens {
			return t
		}
		if t.Position.Line != line {
			line, onLine = t.Position.Line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType, token.TagType, token.AnchorType:
			if flow > 0 && t.Type == token.MappingValueType {
				break
			}
			onLine++
			for len(columns) > 0 && columns[len(columns)-1] >= t.Position.Column {
				columns = columns[:len(columns)-1]
			}
			columns = append(columns, t.Position.Column)
		}
		if flow > maxDepth || onLine > maxDepth || len(columns) > 2*maxDepth {
			return t
		}
	}
	return nil
}

// plainText is a message of the YAML parser's on one line.
func plainText(s string) string { return strings.Join(strings.Fields(s), " ") }

// spot is a place in the text.
type spot struct{ line, column, width int }

func spotOf(t *token.Token) spot {
	if t == nil || t.Position == nil {
		return spot{}
	}
	width := utf8.RuneCountInString(strings.TrimSpace(t.Origin))
	if first, _, more := strings.Cut(strings.TrimSpace(t.Origin), "\n"); more {
		width = utf8.RuneCountInString(first)
	}
	return spot{t.Position.Line, max(1, t.Position.Column), max(1, width)}
}

// start is the token with which a value begins.
func start(n ast.Node) *token.Token {
	switch n := n.(type) {
	case *ast.MappingNode:
		if len(n.Values) > 0 && !n.IsFlowStyle {
			return start(n.Values[0])
		}
	case *ast.MappingValueNode:
		return start(n.Key)
	}
	return n.GetToken()
}

// at makes a problem with a place.
func (d *decoder) at(s spot, path, message string) *Problem {
	p := &Problem{File: d.file, Line: s.line, Column: s.column, Path: path, Message: message, width: s.width}
	if s.line > 0 && s.line <= len(d.lines) {
		p.source = strings.TrimRight(d.lines[s.line-1], "\r")
	}
	return p
}

// placed gives problems of a path the place of that, or of the nearest mapping
// around it that is written down.
func (d *decoder) placed(problems Problems) Problems {
	for i, p := range problems {
		at := d.at(d.spotAt(p.Path), p.Path, p.Message)
		at.Suggestion = p.Suggestion
		problems[i] = at
	}
	return problems
}

func (d *decoder) spotAt(path string) spot {
	for {
		if s, ok := d.places[path]; ok {
			return s
		}
		if path == "" {
			return spot{}
		}
		path = parent(path)
	}
}

// parent is the path of the mapping or list that has a path in it.
func parent(path string) string { return path[:max(0, strings.LastIndexAny(path, ".["))] }

// unclear is whether something below a path could not be read, so that what
// depends on it cannot be judged.
func (d *decoder) unclear(path string) bool {
	about := func(of string) bool { return within(of, path) || within(path, of) && of != "" }
	return slices.ContainsFunc(d.problems, func(p *Problem) bool { return about(p.Path) }) ||
		slices.ContainsFunc(d.meant, func(key string) bool {
			_, given := d.places[key]
			return !given && about(key)
		})
}

// within is whether a path is another, or below it.
func within(path, of string) bool {
	rest, ok := strings.CutPrefix(path, of)
	return ok && (of == "" || rest == "" || rest[0] == '.' || rest[0] == '[')
}
