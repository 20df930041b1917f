package store_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/daemon/internal/store"
)

func open(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// resource is an experiment.
func resource(name string) store.Resource {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	return store.Resource{ID: "id-" + name, Kind: control.Experiments, Name: name, Generation: 1, Created: at, Updated: at, Spec: json.RawMessage(`{"definition":"x"}`), Addrs: []string{"127.0.0.1:20000"}}
}

func run(id string, state control.RunState) store.Run {
	return store.Run{Run: control.Run{ID: id, Experiment: "e", State: state, Created: time.Unix(1, 0).UTC()}, ExperimentID: "id-e", Input: []byte(`{"name":"e"}`), LastEvent: 1}
}

func TestWhatIsStoredIsThereAgain(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	for name, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "5000"} {
		if got, err := s.Pragma(name); err != nil || got != want {
			t.Errorf("%s is %s, %v, want %s", name, got, err, want)
		}
	}
	ctx := t.Context()
	r := run("r", control.Queued)
	r.Key = "k"
	err := errors.Join(s.Put(ctx, resource("e")), s.Halt(ctx, "why"))
	var adding error
	r.Seq, adding = s.AddRun(ctx, r, control.RunEvent{N: 1, State: control.Queued})
	if r.Seq != 1 {
		t.Errorf("AddRun() = %d, want 1, the first", r.Seq)
	}
	r.State, r.Journals, r.LastEvent = control.Active, 1, 9
	err = errors.Join(err, adding, s.AddJournal(ctx, r, 1, []byte(`{"a":1}`)), s.SaveRun(ctx, r, control.RunEvent{N: 5, State: control.Active}), s.Close())
	if err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	if all, err := s.Resources(ctx); err != nil || fmt.Sprint(all) != fmt.Sprint([]store.Resource{resource("e")}) {
		t.Errorf("Resources() = %v, %v, want what was put", all, err)
	}
	if got, err := s.RunByKey(ctx, "id-e", "k"); err != nil || fmt.Sprint(got) != fmt.Sprint(r) {
		t.Errorf("RunByKey() = %+v, %v, want %+v", got, err, r)
	}
	if got, err := s.Unfinished(ctx); err != nil || len(got) != 1 || got[0].LastEvent != 9 {
		t.Errorf("Unfinished() = %+v, %v, want the run", got, err)
	}
	if events, err := s.Events(ctx, "r", 1); err != nil || len(events) != 1 || events[0].N != 5 {
		t.Errorf("Events(1) = %+v, %v, want the fifth", events, err)
	}
	if data, err := s.Journal(ctx, "r", 1); err != nil || string(data) != `{"a":1}` {
		t.Errorf("Journal() = %s, %v", data, err)
	}
	if reason, halted, err := s.Halted(ctx); err != nil || !halted || reason != "why" {
		t.Errorf("Halted() = %q, %v, %v", reason, halted, err)
	}
	if err := s.Delete(ctx, "id-e"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(ctx, "r"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("with its experiment gone, Run() = %v, want ErrNotFound", err)
	}
	if _, err := s.Journal(ctx, "r", 1); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("with its experiment gone, Journal() = %v, want ErrNotFound", err)
	}
	if err := s.SaveRun(ctx, r); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("with its experiment gone, SaveRun() = %v, want ErrNotFound", err)
	}
}

func TestPrune(t *testing.T) {
	s := open(t, t.TempDir())
	ctx := t.Context()
	if err := s.Put(ctx, resource("e")); err != nil {
		t.Fatal(err)
	}
	for i, state := range []control.RunState{control.Active, control.Done, control.Interrupted, control.Done, control.Queued} {
		if _, err := s.AddRun(ctx, run(fmt.Sprint(i), state)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Prune(ctx, "id-e", 1); err != nil {
		t.Fatal(err)
	}
	runs, err := s.Runs(ctx, "e", 10)
	var left string
	for _, r := range runs {
		left += r.ID
	}
	if err != nil || left != "430" {
		t.Errorf("the runs %s are left, %v, want the last that is over and those that are not, 430", left, err)
	}
	if latest, over, err := s.Latest(ctx, "id-e"); err != nil || latest.ID != "4" || over.ID != "3" {
		t.Errorf("Latest() = %s, %s, %v, want 4 and 3", latest.ID, over.ID, err)
	}
}

// filled is a folder with a database that is not small.
func filled(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir)
	for i := range 200 {
		r := resource(fmt.Sprint(i))
		r.Spec = bytes.Repeat([]byte("x"), 1000)
		if err := s.Put(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// spoil does something to the bytes of a database.
func spoil(do func([]byte) []byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		file := filepath.Join(dir, store.FileName)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, do(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func exec(statement string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := store.Exec(context.Background(), dir, statement); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatIsNoDatabaseOfOurs(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*testing.T, string)
		want  error
		text  string
	}{
		{"empty", spoil(func([]byte) []byte { return nil }), store.ErrDamaged, "it is empty"},
		{"garbage", spoil(func(b []byte) []byte { return bytes.Repeat([]byte("no database "), len(b)/12) }), store.ErrDamaged, "does not begin as a database does"},
		{"a few bytes", spoil(func(b []byte) []byte { return b[:10] }), store.ErrDamaged, ""},
		{"a header alone", spoil(func(b []byte) []byte { return b[:100] }), store.ErrDamaged, ""},
		{"half of it", spoil(func(b []byte) []byte { return b[:len(b)/2] }), store.ErrDamaged, ""},
		{"garbled pages", spoil(func(b []byte) []byte {
			for i := 8192; i < len(b); i++ {
				b[i] ^= 0x5a
			}
			return b
		}), store.ErrDamaged, ""},
		{"a newer schema", exec(fmt.Sprintf("PRAGMA user_version = %d", store.Version()+1)), store.ErrNewer, fmt.Sprintf("version %d, and this program knows versions up to %d", store.Version()+1, store.Version())},
		{"somebody else's", exec("PRAGMA application_id = 7"), store.ErrForeign, "application_id is 0x7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filled(t)
			c.spoil(t, dir)
			before := contents(t, dir)
			s, err := store.Open(t.Context(), dir)
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), filepath.Join(dir, store.FileName)) {
				t.Errorf("Open() = %v, want that the file %v, with %q", err, c.want, c.text)
			}
			if after := contents(t, dir); after != before {
				t.Error("the files are not what they were")
			}
		})
	}
}

// contents are the names and bytes of all files of a folder.
func contents(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s %d\n%s\n", e.Name(), len(data), data)
	}
	return all.String()
}

func TestADatabaseThatIsMissingBesideItsLog(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, store.FileName+"-wal"), []byte("something"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(t.Context(), dir); !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), "it is missing") {
		t.Errorf("Open() = %v, want ErrDamaged", err)
	}
}

func TestEveryOlderSchemaIsBroughtUpToDate(t *testing.T) {
	for version := 1; version < store.Version(); version++ {
		dir := t.TempDir()
		if err := store.Old(t.Context(), dir, version); err != nil {
			t.Fatal(err)
		}
		insert := `INSERT INTO resources VALUES ('id-e', 'experiments', 'e', 1, '2026-01-02T03:04:05Z', '2026-01-02T03:04:05Z', '{}', '[]')`
		if err := store.Exec(t.Context(), dir, insert); err != nil {
			t.Fatal(err)
		}
		s := open(t, dir)
		if all, err := s.Resources(t.Context()); err != nil || len(all) != 1 || all[0].ID != "id-e" {
			t.Errorf("from version %d: Resources() = %v, %v, want what was there", version, all, err)
		}
		if _, err := s.AddRun(t.Context(), run("r", control.Queued)); err != nil {
			t.Errorf("from version %d: AddRun() = %v", version, err)
		}
		if got, err := s.Pragma("user_version"); err != nil || got != fmt.Sprint(store.Version()) {
			t.Errorf("from version %d: the version is %s, %v, want %d", version, got, err, store.Version())
		}
	}
}

// What an unfinished creation has left behind is no obstacle.
func TestAnUnfinishedDatabaseIsNone(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".new", ".new-journal"} {
		if err := os.WriteFile(filepath.Join(dir, store.FileName+name), []byte("half of one"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open(t, dir)
	if left, _ := filepath.Glob(filepath.Join(dir, "*.new*")); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
}

func TestAFullDatabase(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	ctx := t.Context()
	if err := s.Put(ctx, resource("first")); err != nil {
		t.Fatal(err)
	}
	if err := s.LimitPages(2); err != nil {
		t.Fatal(err)
	}
	large := resource("second")
	large.Spec = bytes.Repeat([]byte("x"), 100_000)
	if err := s.Put(ctx, large); !errors.Is(err, store.ErrFull) || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("Put() of what there is no room for = %v, want ErrFull", err)
	}
	for range 2 {
		if all, err := s.Resources(ctx); err != nil || len(all) != 1 || all[0].Name != "first" {
			t.Errorf("Resources() = %v, %v, want what there was", all, err)
		}
		s.Close()
		s = open(t, dir)
	}
	if err := s.Put(ctx, large); err != nil {
		t.Errorf("Put() when there is room again = %v", err)
	}
}

func TestAPathWithSigns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b?c#d%20e&mode=memory")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if _, err := os.Stat(filepath.Join(dir, store.FileName)); err != nil {
		t.Error(err)
	}
}
