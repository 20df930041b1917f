package provider

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/provider/local"
)

// connection is what resources get of the provider: whom they ask, and where they
// write.
type connection struct {
	control.Backend
	dataDir string
	// local is whether the daemon is on this machine, and started by this program.
	local bool
}

// newConnection returns a connection that connects when something is asked. at is
// the attribute that an error is about.
func newConnection(cfg Config, endpoint, token, dataDir string) (c *connection, at string, err error) {
	if dataDir == "" {
		if dataDir, err = local.DefaultDataDir(cfg.Getenv); err != nil {
			return nil, "data_dir", err
		}
	}
	agent := "terraform-provider-revenant"
	if visible := strings.Map(plainASCII, cfg.Version); visible != "" {
		agent += "/" + visible
	}
	switch {
	case cfg.Backend != nil:
		return &connection{Backend: cfg.Backend, dataDir: dataDir}, "", nil
	case endpoint != "":
		client := control.ClientConfig{Token: token, UserAgent: agent}
		if socket, unix := strings.CutPrefix(endpoint, "unix://"); unix {
			if token != "" {
				return nil, "token", errors.New("a token is given, and a Unix socket wants none: leave it away, or give the daemon's address as http://host:port")
			}
			client.Socket = socket
		} else {
			client.Endpoint = strings.TrimSuffix(endpoint, "/")
		}
		remote, err := control.New(client)
		if err != nil {
			return nil, "endpoint", err
		}
		return &connection{Backend: &shaken{Client: remote}, dataDir: dataDir}, "", nil
	}
	if dataDir, err = local.CheckDataDir(dataDir); err != nil {
		return nil, "data_dir", err
	}
	program := cfg.Program
	if program == "" {
		if program, err = os.Executable(); err != nil {
			return nil, "data_dir", fmt.Errorf("the provider does not know its own program, which it would start as a daemon: %w", err)
		}
	}
	d, err := local.New(local.Config{
		DataDir: dataDir, Program: program, Args: slices.Concat(cfg.Args, []string{"--data-dir", dataDir}), UserAgent: agent,
		Started: func(ctx context.Context, pid int) {
			tflog.Info(ctx, "a daemon was started", map[string]any{"data_dir": dataDir, "pid": pid})
		},
	})
	if err != nil {
		return nil, "data_dir", err
	}
	return &connection{Backend: d, dataDir: dataDir, local: true}, "", nil
}

// plainASCII drops what cannot be in a header.
func plainASCII(r rune) rune {
	if r < '!' || r > '~' {
		return -1
	}
	return r
}

// configured takes what Configure of the provider has left for a resource: nothing
// when Terraform only validates.
func configured(data any, into **connection) (diags diag.Diagnostics) {
	if data == nil {
		return nil
	}
	c, ok := data.(*connection)
	if !ok {
		diags.AddError("The provider is at fault", fmt.Sprintf("A resource got a %T of it. Please report this.", data))
		return diags
	}
	*into = c
	return nil
}
