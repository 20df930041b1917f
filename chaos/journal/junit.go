package journal

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// WriteJUnit writes the verdicts of runs as JUnit XML: a test suite for each run,
// in it a test case for the run's verdict and one for each check, named arm,
// client and measure. It keeps to what the schemas of Ant and of Jenkins have in
// common.
//
//   - A check of the protected arm that is not met is a failure, and so is the
//     verdict of a run that has deviated.
//   - Whatever kept the run from showing anything is an error: a check with a
//     Problem, one of the control arm or from before the method that is not met,
//     and the verdict of a run that was inconclusive or aborted. Not skipped: CI
//     shows what is skipped as green, and such a run is never a pass.
//
// A journal that is not valid is an error, and nothing is written.
func WriteJUnit(w io.Writer, runs ...*Journal) error {
	var doc junitSuites
	for i, j := range runs {
		if err := j.Validate(); err != nil {
			return err
		}
		doc.Suites = append(doc.Suites, j.suite(i))
	}
	out, err := xml.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(append([]byte(xml.Header), out...), '\n'))
	return err
}

// The elements of the XML. Their order is the schema's.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		ID         int             `xml:"id,attr"`
		Package    string          `xml:"package,attr"`
		Name       string          `xml:"name,attr"`
		Timestamp  string          `xml:"timestamp,attr"`
		Hostname   string          `xml:"hostname,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Time       string          `xml:"time,attr"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
		Out        string          `xml:"system-out"`
		Err        string          `xml:"system-err"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class   string      `xml:"classname,attr"`
		Name    string      `xml:"name,attr"`
		Time    string      `xml:"time,attr"`
		Failure *junitFault `xml:"failure"`
		Error   *junitFault `xml:"error"`
	}
	junitFault struct {
		Type    string `xml:"type,attr"`
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

func (j *Journal) suite(id int) junitSuite {
	took := junitSeconds(j.End.Sub(j.Start))
	name := cmp.Or(line(j.Name), "run") // a name of blanks is none in XML
	s := junitSuite{
		ID: id, Package: "revenant", Name: name,
		// Ant's schema has no place for a zone.
		Timestamp: j.Start.UTC().Format("2006-01-02T15:04:05"),
		Hostname:  cmp.Or(line(j.Node), "localhost"), Time: took,
		Properties: []junitProperty{
			{"verdict", string(j.Verdict)},
			{"status", string(j.Status)},
			{"seed", strconv.FormatUint(j.Seed, 10)},
			{"time_scale", strconv.FormatFloat(j.Scale, 'g', -1, 64)},
			{"repeat", strconv.Itoa(max(1, j.Repeat))},
			{"revenant-version", line(j.Program)},
			{"again", line(j.Again)},
		},
		Out: j.junitText(),
	}
	// The run took its time, the checks none: with them, the suite's is the sum.
	verdict := junitCase{Class: "revenant." + name, Name: "verdict", Time: took}
	fault := &junitFault{Type: string(j.Verdict), Message: line(string(j.Verdict) + ": " + j.Reason), Text: clean(j.Reason)}
	switch j.Verdict {
	case Upheld:
	case Deviated:
		verdict.Failure = fault
	default:
		verdict.Error = fault
	}
	s.Cases = append(s.Cases, verdict)
	for _, c := range j.Before {
		s.Cases = append(s.Cases, c.junit("revenant."+name+".before", true))
	}
	for _, c := range j.After {
		s.Cases = append(s.Cases, c.junit("revenant."+name, c.Arm == Control))
	}
	s.Tests = len(s.Cases)
	for _, c := range s.Cases {
		if c.Failure != nil {
			s.Failures++
		}
		if c.Error != nil {
			s.Errors++
		}
	}
	return s
}

// junit is the check as a test case. needed says that without it there is
// nothing to judge.
func (c Check) junit(class string, needed bool) junitCase {
	t := junitCase{Class: class, Name: line(c.name()), Time: "0"}
	measured := fmt.Sprintf("%s is %s, want %s", c.Measure, c.Value, c.Tolerance)
	switch {
	case c.Problem != "":
		t.Error = &junitFault{Type: "problem", Message: line(c.Problem), Text: clean(c.Problem + "\n" + measured)}
	case c.Met:
	case needed:
		t.Error = &junitFault{Type: "nothing_to_judge", Message: line(measured), Text: clean(measured)}
	default:
		t.Failure = &junitFault{Type: "tolerance", Message: line(measured), Text: clean(measured)}
	}
	return t
}

// junitText is what a person who looks at the suite wants to know.
func (j *Journal) junitText() string {
	lines := []string{j.title(), string(j.Verdict) + ": " + j.Reason}
	for _, a := range j.Run {
		text := clock(a.At) + " " + a.Name + ": " + string(a.Status)
		if a.Output != "" {
			text += ", " + a.Output
		}
		lines = append(lines, text)
	}
	if j.Again != "" {
		lines = append(lines, "again: "+j.Again)
	}
	for i, l := range lines {
		lines[i] = line(l)
	}
	return strings.Join(lines, "\n")
}

// junitSeconds is the decimal of the schemas, to the millisecond.
func junitSeconds(d time.Duration) string { return decimal(d.Round(time.Millisecond)) }
