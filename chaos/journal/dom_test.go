package journal_test

import (
	"bytes"
	"encoding/xml"
	"io"
	"slices"
	"strings"
	"testing"
)

// node is an element of a page. The pages are well-formed XML, so that they can
// be read without an HTML parser.
type node struct {
	name     string
	attr     map[string]string
	children []*node
	text     string // its own and its children's, in order
}

// parse reads a page or fails the test.
func parse(t testing.TB, page []byte) *node {
	t.Helper()
	root := &node{}
	open := []*node{root}
	d := xml.NewDecoder(bytes.NewReader(page))
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("the page is not well-formed: %v", err)
		}
		top := open[len(open)-1]
		switch token := token.(type) {
		case xml.StartElement:
			n := &node{name: token.Name.Local, attr: map[string]string{}}
			for _, a := range token.Attr {
				n.attr[a.Name.Local] = a.Value
			}
			top.children = append(top.children, n)
			open = append(open, n)
		case xml.EndElement:
			open = open[:len(open)-1]
			open[len(open)-1].text += top.text
		case xml.CharData:
			top.text += string(token)
		case xml.Comment:
			t.Errorf("the page has a comment: %q", token)
		}
	}
	return root
}

// all is n and what is in it, in order, as far as it has a name and a class, "" for any.
func (n *node) all(name, class string) []*node {
	var found []*node
	if (name == "" || n.name == name) && (class == "" || slices.Contains(strings.Fields(n.attr["class"]), class)) && n.name != "" {
		found = append(found, n)
	}
	for _, c := range n.children {
		found = append(found, c.all(name, class)...)
	}
	return found
}

// one is the only such element.
func (n *node) one(t testing.TB, name, class string) *node {
	t.Helper()
	found := n.all(name, class)
	if len(found) != 1 {
		t.Fatalf("%d elements %s.%s, want 1", len(found), name, class)
	}
	return found[0]
}

// byID is the element with an id, nil if there is none.
func (n *node) byID(id string) *node {
	for _, e := range n.all("", "") {
		if e.attr["id"] == id {
			return e
		}
	}
	return nil
}

// words is the text of n on one line.
func (n *node) words() string { return strings.Join(strings.Fields(n.text), " ") }

// texts is the text of each.
func texts(nodes []*node) []string {
	var list []string
	for _, n := range nodes {
		list = append(list, n.words())
	}
	return list
}

// rows is the text of a table's cells.
func (n *node) rows() [][]string {
	var rows [][]string
	for _, tr := range n.all("tr", "") {
		var row []string
		for _, c := range tr.children {
			row = append(row, c.words())
		}
		rows = append(rows, row)
	}
	return rows
}
