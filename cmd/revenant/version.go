package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long:  "Print the version of this program, its commit, and the version of Go.",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), version()); err != nil {
				return &failure{exitFailed, err}
			}
			return nil
		},
	}
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	return versionLine(info)
}

// versionLine is what the build says of itself. info may be nil.
func versionLine(info *debug.BuildInfo) string {
	version := "(devel)"
	var details []string
	if info != nil {
		if info.Main.Version != "" {
			version = info.Main.Version
		}
		settings := make(map[string]string)
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		if commit := settings["vcs.revision"]; commit != "" {
			commit = "commit " + commit[:min(len(commit), 12)]
			if settings["vcs.modified"] == "true" {
				commit += ", modified"
			}
			details = append(details, commit)
		}
	}
	details = append(details, runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH)
	return fmt.Sprintf("revenant %s (%s)", version, strings.Join(details, ", "))
}
