package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/auth/extauth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

const (
	// metadataURL is the client's id where a server takes the URL of a document
	// for one. The suite knows this one, and nobody fetches it.
	metadataURL = "https://conformance-test.local/client-metadata.json"
	// redirectURL is where the code would be delivered. Nothing listens there:
	// fetchCode takes the code from the redirect itself.
	redirectURL = "http://localhost/callback"
)

// authorizationCode sends the user to the authorization server, as a client that
// can be known to it in every way: by the credentials that it was told, by a
// document, or by registering.
func authorizationCode(client *http.Client, told told) (auth.OAuthHandler, error) {
	config := &auth.AuthorizationCodeHandlerConfig{
		Client:                         client,
		RedirectURL:                    redirectURL,
		AuthorizationCodeFetcher:       fetchCode,
		RequestRefreshToken:            true,
		ClientIDMetadataDocumentConfig: &auth.ClientIDMetadataDocumentConfig{URL: metadataURL},
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{
			Metadata: &oauthex.ClientRegistrationMetadata{
				ClientName:   "revenant-conformance",
				RedirectURIs: []string{redirectURL},
				GrantTypes:   []string{"authorization_code", "refresh_token"},
			},
		},
	}
	if told.ClientID != "" {
		config.PreregisteredClient = told.credentials()
	}
	return auth.NewAuthorizationCodeHandler(config)
}

// clientCredentials needs no user: the client is authorized as itself.
func clientCredentials(client *http.Client, told told) (auth.OAuthHandler, error) {
	return extauth.NewClientCredentialsHandler(&extauth.ClientCredentialsHandlerConfig{
		Credentials: told.credentials(),
		HTTPClient:  client,
	})
}

func (t told) credentials() *oauthex.ClientCredentials {
	return &oauthex.ClientCredentials{
		ClientID:         t.ClientID,
		ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: t.ClientSecret},
	}
}

// fetchCode is the user's browser. The suite's authorization servers ask nothing
// and redirect at once.
func fetchCode(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, args.URL, nil)
	if err != nil {
		return nil, err
	}
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := browser.Do(req)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	location, err := resp.Location()
	if err != nil {
		return nil, fmt.Errorf("the authorization server answered %s: %w", resp.Status, err)
	}
	answer := location.Query()
	return &auth.AuthorizationResult{Code: answer.Get("code"), State: answer.Get("state"), Iss: answer.Get("iss")}, nil
}
