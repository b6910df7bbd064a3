package rest

import (
	"fmt"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// textFields are texts that stand for something: what was expected instead of
// another type is shown by an example.
var textFields = map[string]string{
	"ttl":           `"10s" (a duration as text)`,
	"wait":          `"10s" (a duration as text)`,
	"lock_delay":    `"10s" (a duration as text)`,
	"fencing_token": `"1867776000000001" (a number as text)`,
	"value":         `"aGVsbG8=" (bytes as text, in base64)`,
}

// complaint words what huma found wrong with the query or the path of a request;
// bodies are read by decodeStrict. Values are not echoed.
func complaint(d *huma.ErrorDetail) string {
	if query, in := strings.CutPrefix(d.Location, "query."); in && d.Message == "unknown query parameter" {
		return fmt.Sprintf("the query parameter %q is not known; /openapi.json describes what is", query)
	}
	return strings.TrimPrefix(d.Location+": ", ": ") + d.Message
}
