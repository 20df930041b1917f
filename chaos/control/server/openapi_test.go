package server_test

import (
	"context"
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

func TestDescriptionIsOpenAPI(t *testing.T) {
	if description.OpenAPI != "3.1.0" {
		t.Errorf("openapi is %q, want 3.1.0", description.OpenAPI)
	}
	if err := description.Validate(context.Background(), openapi3.EnableSchemaFormatValidation()); err != nil {
		t.Error(err)
	}
}

func TestEveryRouteIsDescribedAndEveryDescriptionIsARoute(t *testing.T) {
	s, _, _ := newServer(t)
	var served, described []string
	for _, r := range s.Routes() {
		served = append(served, r.Method+" "+r.Path)
	}
	for path, item := range description.Paths.Map() {
		for method, operation := range item.Operations() {
			described = append(described, method+" "+path)
			if operation.Summary == "" || operation.OperationID == "" || len(operation.Tags) != 1 {
				t.Errorf("%s %s has summary %q, operationId %q and tags %q, want one of each", method, path, operation.Summary, operation.OperationID, operation.Tags)
			}
		}
	}
	slices.Sort(served)
	slices.Sort(described)
	if !slices.Equal(served, described) {
		t.Errorf("served\n%q\ndescribed\n%q", served, described)
	}
	if len(served) < 30 {
		t.Errorf("%d routes: where have they gone?", len(served))
	}
}
