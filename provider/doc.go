// Package provider is the Terraform provider: it makes what a daemon of the control
// plane keeps into resources. What a resource's settings are, it takes from the
// schema of the experiments' definitions, and whether they are right, it asks that
// package, so that HCL and YAML never differ. For Terraform's sake there is nothing
// here that could not be done with a [control.Client].
//
// # The daemon
//
// With an endpoint it talks to a daemon of somebody's. Without one it has package
// local find or start one, the first time that something is asked of it.
//
// # What dies outside of Terraform
//
// A resource that the daemon does not have is gone from the state, and the next
// apply makes it anew. One that has failed says so in state, and the next apply
// starts it.
package provider
