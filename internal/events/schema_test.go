package events

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func loadSchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	path, err := filepath.Abs("../../docs/schema/events-v1.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	schema, err := jsonschema.NewCompiler().Compile(path)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// schemaError is the schema's verdict on a line.
func schemaError(schema *jsonschema.Schema, line string) error {
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// documentedEvents are the lines of the json blocks of the documentation.
func documentedEvents(t testing.TB) []string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for i, block := range strings.Split(string(doc), "```") {
		if body, ok := strings.CutPrefix(block, "json\n"); ok && i%2 == 1 {
			lines = append(lines, strings.Split(strings.TrimSpace(body), "\n")...)
		}
	}
	return lines
}

func TestDocumentationAgreesWithSchemaAndEndpoint(t *testing.T) {
	schema := loadSchema(t)
	lines := documentedEvents(t)
	e := newEndpoint(t, endpointOptions{})
	seen := map[string]bool{}
	for _, line := range lines {
		if err := schemaError(schema, line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		e.good(line)
		var v struct{ Type string }
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		seen[v.Type] = true
	}
	for _, eventType := range Types() {
		if !seen[eventType] {
			t.Errorf("no example of %s", eventType)
		}
	}
	e.want(ignoredLine("duplicate", 0), ignoredLine("replica_unknown", 0))
}

func TestDocumentationNamesEveryReason(t *testing.T) {
	doc, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range slices.Concat(reasons(), ignoreReasons()) {
		if !strings.Contains(string(doc), "`"+reason+"`") {
			t.Errorf("docs/events.md does not name %s", reason)
		}
	}
}

// What a line alone tells to be wrong, the schema and the endpoint both refuse.
func TestSchemaAgreesWithEndpoint(t *testing.T) {
	schema := loadSchema(t)
	e := newEndpoint(t, endpointOptions{})
	e.good(`{"type":"request_started","request_id":"known","model_name":"m"}`)
	fields := map[string][]string{
		"e2e_s": {"0", "-1", "604801", `"1"`, "null", "1e999"}, "ttfp_s": {"0", "-0.5", "-1", "true", "null"},
		"audio_frames": {"0", "1", "-1", "1.5", "1e15", `"1"`}, "stage_gen_time_s": {"0", "-1", "null", "[]"},
		"arrivals_s": {"[0.1,0.2]", "[-2]", "[null]", `["1"]`, "{}", "null"}, "chunk_bytes": {"[1,1]", "[-1]", "[1.5]", "[1e300]"},
		"channels": {"1", "0", "1.5", "2000", "null"}, "bytes_per_sample": {"2", "0", "17", "null"},
		"sample_rate": {"1", "0", "-1", `"x"`, "null", "[]"},
		"size_bytes":  {"0", "-1", "1e300"}, "tx_ms": {"0", "-1", "1e12"}, "rx_ms": {"0", "-1", "null"},
		"in_flight_ms": {"0", "-999", "-1000", "null"},
		"request_id":   {`""`, "1", "null"}, "model_name": {`""`, "1", "null"}, "stage": {`""`, "2", "null"},
		"replica": {`""`, "2", "null"}, "from_stage": {`""`, "null"}, "to_stage": {"1"}, "to_replica": {`""`, "null"},
		"finished_reason": {`""`, `"abort"`, "1", "null"}, "reason": {`""`, "1", "null"}, "pipeline": {`"p"`, `""`, "1", "null"},
		"unheard_of": {"1"},
	}
	verdicts := 0
	for i, example := range slices.Concat(documentedEvents(t), []string{"{}", "[]", "null", "1", "{", `{"type":"x"}`, `{"type":1}`}) {
		var object map[string]json.RawMessage
		lines := []string{example}
		if json.Unmarshal([]byte(example), &object) == nil && object != nil {
			if object["request_id"] != nil {
				object["request_id"], _ = json.Marshal("fresh-" + string(rune('a'+i)))
			}
			for field, values := range fields {
				for _, v := range append(values, "") {
					changed := map[string]json.RawMessage{}
					maps.Copy(changed, object)
					delete(changed, field)
					line, err := json.Marshal(changed)
					if err != nil {
						t.Fatal(err)
					}
					if v != "" { // by hand, so that bad numbers stay as they are
						line = []byte(strings.Replace(string(line), "{", `{"`+field+`":`+v+`,`, 1))
						line = []byte(strings.Replace(string(line), ",}", "}", 1))
					}
					lines = append(lines, string(line))
				}
			}
		}
		for _, line := range lines {
			bySchema := schemaError(schema, line)
			a := e.post(line)
			refused := a.status != 202
			if refused && a.rejections[0].Reason == reasonUnknownRequest {
				continue // what the line alone does not tell
			}
			verdicts++
			if refused != (bySchema != nil) {
				t.Errorf("%s: endpoint %d %s, schema: %v", line, a.status, a.body, bySchema)
			}
		}
	}
	if verdicts < 500 {
		t.Errorf("%d lines were compared", verdicts)
	}
}
