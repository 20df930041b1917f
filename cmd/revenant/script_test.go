package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			taken, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			env.Defer(func() { taken.Close() })
			env.Setenv("TAKEN", taken.Addr().String())
			env.Setenv("GORACE", "atexit_sleep_ms=0") // a second at each of many exits
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"status": status,
			"lines":  lines,
			"width":  width,
			"json":   jsonField,

			"definition": writeDefinition,
		},
	})
}

// status runs revenant and checks its exit status, which exec cannot.
//
//	status 2 demo --scale 0
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: status code args...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec("revenant", args[1:]...); err != nil {
		exit, ok := err.(interface{ ExitCode() int })
		if !ok {
			ts.Fatalf("revenant: %v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// lines checks how many lines a file has.
//
//	lines stderr 1
func lines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: lines file count")
	}
	text := ts.ReadFile(args[0])
	if n := strings.Count(text, "\n"); strconv.Itoa(n) != args[1] || !strings.HasSuffix(text, "\n") {
		ts.Fatalf("%s has %d lines, want %s", args[0], n, args[1])
	}
}

// width checks that a file fits into so many columns, without a control
// character.
//
//	width stdout 80
func width(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: width file columns")
	}
	columns, err := strconv.Atoi(args[1])
	ts.Check(err)
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line); n > columns {
			ts.Fatalf("%d columns: %s", n, line)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' }) {
			ts.Fatalf("control characters: %q", line)
		}
	}
}

// jsonField checks a value in the one JSON document that a file is.
//
//	json stdout arms.control.parts.1.noticed_at tool_call
func jsonField(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: json file path value")
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(ts.ReadFile(args[0]))))
	dec.UseNumber()
	var v any
	ts.Check(dec.Decode(&v))
	if dec.More() {
		ts.Fatalf("%s has more than one document", args[0])
	}
	for _, key := range strings.Split(args[1], ".") {
		switch at := v.(type) {
		case map[string]any:
			value, ok := at[key]
			if !ok {
				ts.Fatalf("no %s on the way to %s", key, args[1])
			}
			v = value
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(at) {
				ts.Fatalf("no element %s on the way to %s", key, args[1])
			}
			v = at[i]
		default:
			ts.Fatalf("nothing below %v on the way to %s", at, args[1])
		}
	}
	got := fmt.Sprint(v)
	if v == nil {
		got = "null"
	}
	if got != args[2] {
		ts.Fatalf("%s is %s, want %s", args[1], got, args[2])
	}
}

// writeDefinition writes a small definition. That of an experiment whose name
// begins with flaky is to be run three times.
//
//	definition some.yaml its-name gosdk naive
func writeDefinition(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: definition file name client...")
	}
	repeats := 1
	if strings.HasPrefix(args[1], "flaky") {
		repeats = 3
	}
	file := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(filepath.Dir(file), 0o755))
	ts.Check(os.WriteFile(file, fmt.Appendf(nil, `name: %s
title: A title
description: It is valid.
length: 10m
repeats: %d
topology:
  load_balancer: {idle_timeout: 10s}
clients: {%s: {}}
method:
  - at: 30s
    emit: {}
hypothesis:
  protected: {events_lost: 0}
teeth: {none: Nothing happens.}
`, args[1], repeats, strings.Join(args[2:], ": {}, ")), 0o644))
}

// A terminal is told from a pipe and a file by what it is, not by its name.
func TestWhatIsATerminal(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	if isTerminal(file) || isTerminal(w) || isTerminal(new(bytes.Buffer)) || !isTerminal(device) {
		t.Errorf("isTerminal: file %t, pipe %t, buffer %t, device %t, want it of the device alone",
			isTerminal(file), isTerminal(w), isTerminal(new(bytes.Buffer)), isTerminal(device))
	}
}
