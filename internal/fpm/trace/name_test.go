package trace

import "testing"

func TestParseSegmentName(t *testing.T) {
	cases := map[string]SegmentName{
		"/tmp/dynamo-fpm.4192.000000.jsonl.gz":      {"/tmp/dynamo-fpm", "4192", 0},
		"/tmp/dynamo-fpm.4192.1000000.jsonl.gz":     {"/tmp/dynamo-fpm", "4192", 1000000},
		"fpm.v2.prod.tcp___h_20380.000012.jsonl.gz": {"fpm.v2.prod", "tcp___h_20380", 12},
		"/a.b/x.unknown.000001.jsonl.gz":            {"/a.b/x", "unknown", 1},
	}
	for path, want := range cases {
		got, ok := ParseSegmentName(path)
		if !ok || got != want {
			t.Errorf("%s: %+v %v, want %+v", path, got, ok, want)
		}
		if got.String() != path {
			t.Errorf("%s came back as %s", path, got)
		}
	}
	for _, path := range []string{
		"", "x", "x.jsonl.gz", "/tmp/dynamo-fpm.4192.00000.jsonl.gz", "/tmp/dynamo-fpm.4192.0000000.jsonl.gz",
		"/tmp/dynamo-fpm.4192.000000.jsonl", "/tmp/dynamo-fpm.4192.-00001.jsonl.gz", "/tmp/dynamo-fpm.4192.+00001.jsonl.gz",
		"/tmp/dynamo-fpm.4192.000000.jsonl.gz.bak", "/tmp/dynamo-fpm..000000.jsonl.gz", "/t.mp/000000.jsonl.gz",
		"/t.mp/x.000000.jsonl.gz", "/tmp/x.99999999999999999999.4192.jsonl.gz",
	} {
		if got, ok := ParseSegmentName(path); ok {
			t.Errorf("%q was taken for %+v", path, got)
		}
	}
}

func TestSanitize(t *testing.T) {
	for raw, want := range map[string]string{
		"": "unknown", "4192": "4192", "tcp://10.0.0.5:20380": "tcp___10_0_0_5_20380", "a-b_C": "a-b_C", "ü/..": "____",
	} {
		if got := Sanitize(raw); got != want {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
}

func TestTrimOutputPath(t *testing.T) {
	for path, want := range map[string]string{
		"/tmp/dynamo-fpm": "/tmp/dynamo-fpm", "/tmp/a.jsonl.gz": "/tmp/a", "/tmp/a.jsonl": "/tmp/a", "/tmp/a.jsonl.gz.jsonl": "/tmp/a.jsonl.gz",
	} {
		if got := TrimOutputPath(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
