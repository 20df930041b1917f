package lb

import (
	"maps"
	"slices"
	"time"
)

// Profile names a load balancer of the field. It fills those knobs of a [Config]
// that are not set with that product's documented defaults. Its text is its
// value, and "" is none.
type Profile string

// The profiles. docs/load-balancers.md has a table of what each fills in.
const (
	AWSALB     Profile = "aws-alb"
	AWSNLB     Profile = "aws-nlb"
	GCPHTTPS   Profile = "gcp-https"
	AzureLB    Profile = "azure-lb"
	Cloudflare Profile = "cloudflare"
	Envoy      Profile = "envoy"
	Heroku     Profile = "heroku"
	// NGINXDefaults is nginx as it comes: with buffering.
	NGINXDefaults Profile = "nginx"
	// HAProxyDefaults is haproxy as Debian configures it; it has no default of
	// its own.
	HAProxyDefaults Profile = "haproxy"
	CloudRun        Profile = "cloud-run"
)

// profiles holds the documented defaults. Where the documents say RST_STREAM,
// which HTTP/1.1 does not have, the connection is reset. A knob that is not here
// is the engine's own.
var profiles = map[Profile]Config{
	AWSALB: {IdleTimeout: 60 * time.Second},
	AWSNLB: {Mode: TCP, IdleTimeout: 350 * time.Second, OnExpiry: SilentThenRST},
	// The backend service timeout: of the whole response.
	GCPHTTPS: {MaxDuration: 30 * time.Second},
	AzureLB:  {Mode: TCP, IdleTimeout: 4 * time.Minute, OnExpiry: Silent},
	// 524, "a timeout occurred", is its own.
	Cloudflare: {IdleTimeout: 120 * time.Second, HeaderStatus: 524, OnExpiry: RST},
	// The route's timeout and the stream's.
	Envoy:           {IdleTimeout: 5 * time.Minute, MaxDuration: 15 * time.Second, OnExpiry: RST},
	Heroku:          {IdleTimeout: 55 * time.Second, HeaderTimeout: 30 * time.Second, HeaderStatus: 503},
	NGINXDefaults:   {IdleTimeout: 60 * time.Second, Buffering: new(true)},
	HAProxyDefaults: {IdleTimeout: 50 * time.Second},
	CloudRun:        {MaxDuration: 300 * time.Second, OnExpiry: CleanEnd},
}

// Profiles returns the names of all profiles, in order.
func Profiles() []Profile { return slices.Sorted(maps.Keys(profiles)) }
