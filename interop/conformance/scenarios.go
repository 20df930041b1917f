package main

// notRun are the client scenarios that a client of go-sdk cannot pass, whatever
// its transport, and why. All others of the suite run.
var notRun = map[string]string{
	"auth/2025-03-26-oauth-metadata-backcompat": "the suite's server calls itself by an issuer that is not its URL; go-sdk refuses that, as RFC 8414 says",
	"auth/client-credentials-jwt":               "go-sdk has no private_key_jwt",
	"auth/cross-app-access-complete-flow":       "go-sdk sends this grant's client secret in the body, the suite wants it in the header",
}

// serverScenarios are those that concern sessions, streams, and what a server
// asks of a client in the course of a call. The suite's others read what a
// server has on offer: tools, resources, prompts.
var serverScenarios = []string{
	"server-initialize",
	"ping",
	"tools-call-with-logging",
	"tools-call-with-progress",
	"tools-call-sampling",
	"tools-call-elicitation",
	"elicitation-sep1034-defaults",
	"elicitation-sep1330-enums",
	"server-sse-polling",
	"server-sse-multiple-streams",
}
