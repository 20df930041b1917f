terraform {
  required_version = ">= 1.8"

  required_providers {
    revenant = {
      source = "revenant-mcp/revenant"
    }
  }
}
