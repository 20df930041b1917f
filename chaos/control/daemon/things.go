package daemon

import (
	"context"
	"net"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// cluster is servers as a thing.
type cluster struct{ *mcpserver.Cluster }

func buildCluster(cfg mcpserver.ClusterConfig, listeners []net.Listener) (thing, error) {
	cfg.Listeners = listeners
	c, err := mcpserver.NewCluster(cfg)
	if err != nil {
		return nil, err
	}
	return cluster{c}, nil
}

func (c cluster) run(ctx context.Context, ready func()) error {
	ready() // the listeners are bound, and whoever comes waits
	return c.Run(ctx)
}

// balancer is a load balancer as a thing.
type balancer struct{ *lb.LoadBalancer }

func buildBalancer(cfg lb.Config, upstreams []string, listener net.Listener) (thing, error) {
	cfg.Listener, cfg.Upstreams = listener, upstreams
	b, err := lb.New(cfg)
	if err != nil {
		return nil, err
	}
	return balancer{b}, nil
}

func (b balancer) run(ctx context.Context, ready func()) error {
	ended, told := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		select {
		case <-b.Ready():
			ready()
		case <-ended:
		}
	}()
	err := b.Run(ctx)
	close(ended)
	<-told
	return err
}
