package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// A server, an experiment with its settings, and a run that is followed to its
// end.
func Example() {
	client, err := control.New(control.ClientConfig{Socket: "/run/user/1000/revenant/daemon.sock"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	if _, err := client.Handshake(ctx); err != nil {
		log.Fatal(err)
	}

	shop, err := json.Marshal(control.ServerSpec{Settings: json.RawMessage(`{"session_ttl": "30m", "log_retention": "60m"}`)})
	if err != nil {
		log.Fatal(err)
	}
	if _, _, err := client.Put(ctx, control.Servers, "shop", -1, shop); err != nil {
		log.Fatal(err)
	}
	definition, err := os.ReadFile("idle-cut.yaml")
	if err != nil {
		log.Fatal(err)
	}
	idleCut, err := json.Marshal(control.ExperimentSpec{Definition: string(definition), Server: "shop"})
	if err != nil {
		log.Fatal(err)
	}
	if _, _, err := client.Put(ctx, control.Experiments, "idle-cut", -1, idleCut); err != nil {
		log.Fatal(err)
	}

	run, err := client.Start(ctx, "idle-cut", "nightly-2026-12-01", control.RunRequest{})
	if control.Is(err, control.Halted) {
		log.Fatal("somebody has halted the daemon")
	} else if err != nil {
		log.Fatal(err)
	}
	err = client.Events(ctx, run.ID, 0, func(e control.RunEvent) error {
		fmt.Println(e.State, e.Phase, e.Step)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	if run, err = client.Run(ctx, run.ID); err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Verdict, run.Reason)
}
