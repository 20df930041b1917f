module github.com/revenant-mcp/revenant/middleware

go 1.25.0
