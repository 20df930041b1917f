// Package mocks has mocks of the control plane's interfaces, for the tests of who
// uses them. Its other files are written by mockery: go tool mockery, in the root
// of the repository.
package mocks
