package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// invalidFiles returns what is wrong with each testdata/invalid-*.yml: one line for each fault, without the name of the file.
func invalidFiles() map[string][]string {
	return map[string][]string{
		"alias-of-itself":             {`1: global: nested too deeply, or repeated too often by aliases: write it out`},
		"created-series":              {`1: created_series: "maybe" is neither drop nor keep: write one of the two`},
		"data-parallel-no-stage":      {`5: pipelines[0].upstreams[0].static_configs[0]: data_parallel_size needs the stage of the targets: add stage, or remove data_parallel_size and let the flat map count`},
		"data-parallel-replica":       {`5: pipelines[0].upstreams[0].replica: "first" is no number, and data_parallel_size counts on from it: write a number, or remove data_parallel_size`},
		"data-parallel-replica-label": {`6: pipelines[0].upstreams[0].static_configs[0].labels.replica: "first" is no number, and data_parallel_size counts on from it: write a number, or remove data_parallel_size`},
		"data-parallel-size":          {`5: pipelines[0].upstreams[0].data_parallel_size: must be from 1 to 65535, found 0: write the number of data-parallel ranks, or remove the key for 1`},
		"data-parallel-size-mixed":    {`5: pipelines[0].upstreams[1].static_configs[0].targets[0]: targets of stage "0" have different data_parallel_size, so that a number could come twice: make them equal`},
		"discovery": {
			`4: pipelines[0].upstreams[0].http_sd_configs[1]: URL scheme must be 'http' or 'https'`,
			`4: pipelines[0].upstreams[0].http_sd_configs[2]: URL is missing`,
			`4: pipelines[0].upstreams[0].http_sd_configs[3]: want a URL (the value is not shown, as it may hold a secret)`,
			`6: pipelines[0].upstreams[1].kubernetes_sd_configs[0].role: want a role: pod, service, endpoints, endpointslice, node or ingress, found "pods"`,
			`8: pipelines[0].upstreams[2].file_sd_configs[0]: path name "targets.txt" is not valid for file discovery`,
			`8: pipelines[0].upstreams[2].file_sd_configs[1].refresh_interval: want a duration such as 500ms, 10s or 1h30m, found "soon"`,
			`9: pipelines[0].upstreams[3].dns_sd_configs[0]: a port is required in DNS-SD configs for all record types except SRV`,
			`9: pipelines[0].upstreams[3].dns_sd_configs[1].what: unknown field: known here are names, port, refresh_interval, type`,
		},
		"discovery-values": {
			`4: pipelines[0].upstreams[0].http_sd_configs[0].url: holds a user: put credentials under basic_auth`,
			`5: pipelines[0].upstreams[1].kubernetes_sd_configs[0].api_server: holds a user: put credentials under basic_auth`,
			`6: pipelines[0].upstreams[2].file_sd_configs[0].refresh_interval: must be more than 0: write a duration such as 30s`,
			`7: pipelines[0].upstreams[3].dns_sd_configs[0].refresh_interval: must be more than 0: write a duration such as 30s`,
			`8: pipelines[0].upstreams[4].replica: a replica is one target, and discovery may find several: have relabel_configs set replica, or remove it`,
			`11: forward_pass_metrics.streams[0].http_sd_configs[0].refresh_interval: must be more than 0: write a duration such as 30s`,
		},
		"document-not-mapping": {`1: want keys and values, found a list`},
		"document-second":      {`2: a second document begins here: one file holds one configuration, remove this document and the "---" before it`},
		"events": {
			`2: events.max_body_size: must be more than 0: write a size such as 1MB`,
			`3: events.max_series: must be at least 1, found 0`,
			`4: events.request_timeout: must be more than 0: write a duration such as 1h`,
			`5: events.continuity_thresholds_ms[1]: must be at least 1, found 0`,
			`5: events.continuity_thresholds_ms[2]: 100 is already in the list: remove one of the two`,
		},
		"events-thresholds": {`1: events.continuity_thresholds_ms: an empty list judges no stream: remove the key for the default, or name a threshold in milliseconds`},
		"field-not-yet":     {`4: pipelines[0].upstreams[0].consul_sd_configs: unknown field: known here are authorization, basic_auth, bearer_token, bearer_token_file, body_size_limit, data_parallel_size, dns_sd_configs, enable_compression, enable_http2, file_sd_configs, follow_redirects, http_headers, http_sd_configs, kubernetes_sd_configs, label_limit, label_name_length_limit, label_value_length_limit, metric_relabel_configs, metrics_path, min_scrape_interval, no_proxy, oauth2, params, proxy_connect_header, proxy_from_environment, proxy_url, relabel_configs, replica, sample_limit, scheme, scrape_timeout, stage, static_configs, tls_config`},
		"field-unknown":     {`2: pipeline: unknown field: known here are created_series, events, forward_pass_metrics, global, include, normalize_names, omni_prefix, pipelines`},
		"fpm-capture": {
			`3: forward_pass_metrics.capture.output_path: must not be empty: write the prefix of the files, such as /tmp/dynamo-fpm`,
			`4: forward_pass_metrics.capture.mode: "some" is neither sampled nor full: write one of the two`,
			`5: forward_pass_metrics.capture.sample_interval: must be more than 0: write a duration such as 5s`,
			`6: forward_pass_metrics.capture.jsonl_gz_roll_bytes: must be at least 1, found 0`,
			`7: forward_pass_metrics.capture.max_segments: must be at least 1, found 0`,
		},
		"fpm-data-parallel-size": {`4: forward_pass_metrics.streams[0].data_parallel_size: must be from 1 to 65535, found 0: write the number of data-parallel ranks, or remove the key for 1`},
		"fpm-files": {
			`2: forward_pass_metrics.trace_files[0]: "[a" is no file pattern: write a path, with "*" for any part of a name and each "[" closed by "]"`,
			`3: forward_pass_metrics.benchmark_artifacts[0]: "" is no file pattern: write a path, with "*" for any part of a name and each "[" closed by "]"`,
		},
		"fpm-forget": {`1: forward_pass_metrics.forget_after: 5m is less than stale_after, 10m: a rank is stale before it is forgotten`},
		"fpm-label":  {`3: forward_pass_metrics.streams[0].static_configs[0].labels.zone: no label of forward-pass metrics: use dynamo_namespace, dynamo_component, stage, replica or pipeline`},
		"fpm-no-targets": {
			`3: forward_pass_metrics.streams[0]: no targets: add static_configs with the addresses of publishers, or another way to find them`,
			`4: forward_pass_metrics.streams[1].static_configs[0].targets: no targets: write addresses such as "tcp://10.0.0.5:20380"`,
		},
		"fpm-ports": {`3: forward_pass_metrics.streams[0].static_configs[0].targets[0]: rank 1 would be on port 65536, and the last port is 65535: lower the port or data_parallel_size`},
		"fpm-target": {
			`5: forward_pass_metrics.streams[0].static_configs[0].targets[0]: "10.0.0.5:20380" is no address of a publisher: write "tcp://host:port" or "ipc:///path"`,
			`6: forward_pass_metrics.streams[0].static_configs[0].targets[1]: "tcp://*:20380" has no valid host: write tcp://host:port, such as "tcp://10.0.0.5:20380"`,
			`7: forward_pass_metrics.streams[0].static_configs[0].targets[2]: "tcp://a" has no port: write tcp://host:port, such as "tcp://10.0.0.5:20380"`,
			`8: forward_pass_metrics.streams[0].static_configs[0].targets[3]: "udp://a:1" is no address of a publisher: write "tcp://host:port" or "ipc:///path"`,
			`9: forward_pass_metrics.streams[0].static_configs[0].targets[4]: "...@a:1" is no address of a publisher: write "tcp://host:port" or "ipc:///path"`,
			`10: forward_pass_metrics.streams[0].static_configs[0].targets[5]: "ipc://fpm.sock" names no socket: write ipc:// and an absolute path, such as "ipc:///run/fpm.sock"`,
		},
		"fpm-target-twice":       {`5: forward_pass_metrics.streams[1].static_configs[0].targets[0]: rank 0, at "tcp://a:20382", is already read by line 3: keep one of the two`},
		"fpm-times":              {`2: forward_pass_metrics.stale_after: must be more than 0: write a duration such as 10s`},
		"http-client":            {`4: pipelines[0].upstreams[0]: at most one of basic_auth, oauth2, bearer_token & bearer_token_file must be configured`},
		"http-client-header":     {`4: pipelines[0].upstreams[0]: setting header "Host" is not allowed`},
		"http-client-secret-ref": {`4: pipelines[0].upstreams[0].basic_auth.password_ref: refers to a secret manager, and there is none here: use the key that ends in _file`},
		"http-client-tls":        {`4: pipelines[0].upstreams[0].tls_config: exactly one of key or key_file must be configured when a client certificate is configured`},
		"http-client-type":       {`4: pipelines[0].upstreams[0].basic_auth: want keys and values, found a single value`},
		"include-empty":          {`1: include: an empty list lets no family through: remove the key for the default, or write "*" for everything`},
		"include-glob":           {`3: include[1]: "[a-" is no pattern: close each "[" with "]"`},
		"key-no-text":            {`1: a key must be plain text, found a list`},
		"key-twice":              {`3: omni_prefix: already set on line 1: keep one of the two`},
		"label-name": {
			`6: pipelines[0].upstreams[0].static_configs[0].labels[""]: no valid label name: write letters, digits and "_", and no digit first`,
			`6: pipelines[0].upstreams[0].static_configs[0].labels.9: no valid label name: write letters, digits and "_", and no digit first`,
			`6: pipelines[0].upstreams[0].static_configs[0].labels.a-b: no valid label name: write letters, digits and "_", and no digit first`,
		},
		"label-reserved": {
			`7: pipelines[0].upstreams[0].static_configs[0].labels.__name__: labels that begin with "__" are reserved: choose another name`,
			`8: pipelines[0].upstreams[0].static_configs[0].labels.le: reserved for histograms and summaries: choose another name`,
			`9: pipelines[0].upstreams[0].static_configs[0].labels.quantile: reserved for histograms and summaries: choose another name`,
			`10: pipelines[0].upstreams[0].static_configs[0].labels.engine: comes from the server and becomes stage and replica: set those, or choose another name`,
			`11: pipelines[0].upstreams[0].static_configs[0].labels.pipeline: is the name of the pipeline: set name there`,
		},
		"label-set-twice": {
			`8: pipelines[0].upstreams[0].static_configs[0].labels.replica: is already set by the upstream: keep one of the two`,
			`8: pipelines[0].upstreams[0].static_configs[0].labels.stage: is already set by the upstream: keep one of the two`,
		},
		"limits": {
			`2: global.sample_limit: must not be negative, found -1: write 0 for no limit`,
			`3: global.label_limit: must not be negative, found -2: write 0 for no limit`,
			`4: global.label_name_length_limit: must not be negative, found -3: write 0 for no limit`,
			`5: global.label_value_length_limit: must not be negative, found -4: write 0 for no limit`,
			`6: global.body_size_limit: must not be negative, found -5242880: write 0 for no limit`,
		},
		"limits-upstream":     {`4: pipelines[0].upstreams[0].sample_limit: must not be negative, found -1: write 0 for no limit`},
		"metrics-path":        {`4: pipelines[0].upstreams[0].metrics_path: "metrics?format=prometheus" is no path: begin it with "/" and put what follows a "?" under params`},
		"omni-prefix":         {`1: omni_prefix: "9lives-" cannot begin a metric name: write letters, digits, "_" and ":", such as "vllm:omni_", or "keep"`},
		"omni-prefix-empty":   {`1: omni_prefix: "" cannot begin a metric name: write letters, digits, "_" and ":", such as "vllm:omni_", or "keep"`},
		"on-unmapped":         {`3: pipelines[0].on_unmapped: "ignore" is neither keep nor drop: write one of the two`},
		"pipeline-name-twice": {`5: pipelines[1].name: "a" is already the name of another pipeline, line 2: give each its own`},
		"pipeline-no-stages": {
			`2: pipelines[0].stages: no stages: list them in order, such as [{name: thinker}, {name: talker, replicas: 2}]`,
			`4: pipelines[1].stages: no stages: list them in order, such as [{name: thinker}, {name: talker, replicas: 2}]`,
		},
		"pipeline-unnamed": {`4: pipelines[1]: name required when there is more than one pipeline: add name, it becomes the label pipeline`},
		"relabel": {
			`5: pipelines[0].upstreams[0].relabel_configs[0]: relabel configuration for hashmod requires non-zero modulus`,
			`8: pipelines[0].upstreams[0].metric_relabel_configs[0]: relabel configuration for replace action requires 'target_label' value`,
		},
		"relabel-action":              {`4: pipelines[0].upstreams[0].relabel_configs[0].action: want an action of Prometheus's relabeling (replace, keep, drop, labelmap, ...), found "explode"`},
		"relabel-regex":               {`4: pipelines[0].upstreams[0].relabel_configs[0].regex: want a regular expression of RE2 syntax, found "(": missing closing )`},
		"replica-label-without-stage": {`4: pipelines[0].upstreams[0].static_configs[0].labels.replica: a replica is of a stage: add stage, or remove replica`},
		"replica-mixed":               {`7: pipelines[0].upstreams[0].static_configs[1].targets[0]: some targets of stage "0" have a replica and some have not, so that a number could come twice: give each one or none`},
		"replica-of-two-targets":      {`9: pipelines[0].upstreams[0].static_configs[0].targets[1]: stage "0", replica "0" is already taken by line 8: a replica is one target, give each its own or remove replica`},
		"replica-twice":               {`9: pipelines[0].upstreams[1].static_configs[0].targets[0]: stage "0", replica "0" is already taken by line 6: a replica is one target, give each its own or remove replica`},
		"replica-without-stage":       {`4: pipelines[0].upstreams[0].replica: a replica is of a stage: add stage, or remove replica`},
		"scheme":                      {`4: pipelines[0].upstreams[0].scheme: "ftp" is neither http nor https: write one of the two`},
		"scrape-timeout":              {`1: global.scrape_timeout: must be more than 0: write a duration such as 10s`},
		"scrape-timeout-upstream":     {`4: pipelines[0].upstreams[0].scrape_timeout: must be more than 0: write a duration such as 10s`},
		"stage-label-is-position":     {`5: pipelines[0].stages[1].stage: "0" is already the label of stage 0 of this list: give each stage its own`},
		"stage-label-twice":           {`5: pipelines[0].stages[1].stage: "x" is already the label of stage 0 of this list: give each stage its own`},
		"stage-name-twice":            {`4: pipelines[0].stages[1].name: "a" is already the name of stage 0 of this list: give each stage its own`},
		"stage-replicas": {
			`3: pipelines[0].stages[0].replicas: must be at least 1, found 0: remove the stage if nothing runs it`,
			`4: pipelines[0].stages[1].replicas: must be at least 1, found -1: remove the stage if nothing runs it`,
		},
		"stage-too-many-engines": {`4: pipelines[0].stages[1].replicas: 2 makes more than 100000 engines in the pipeline: check the number`},
		"syntax":                 {`1: not valid YAML: did not find expected node content`},
		"target-bad-host": {
			`4: pipelines[0].upstreams[0].static_configs[0].targets[0]: ":80" has no valid host: write host:port, such as "10.0.0.5:8000"`,
			`4: pipelines[0].upstreams[0].static_configs[0].targets[1]: "::1:80" has an IPv6 address without [ and ]: write host:port, such as "10.0.0.5:8000"`,
			`4: pipelines[0].upstreams[0].static_configs[0].targets[2]: "[a]:80" has no valid host: write host:port, such as "10.0.0.5:8000"`,
			`4: pipelines[0].upstreams[0].static_configs[0].targets[3]: "a b:80" has no valid host: write host:port, such as "10.0.0.5:8000"`,
			`4: pipelines[0].upstreams[0].static_configs[0].targets[4]: "*:80" has no valid host: write host:port, such as "10.0.0.5:8000"`,
		},
		"target-bad-port": {
			`4: pipelines[0].upstreams[0].static_configs[0].targets[0]: "a:0" has no port from 1 to 65535: write host:port, such as "10.0.0.5:8000"`,
			`4: pipelines[0].upstreams[0].static_configs[0].targets[1]: "a:70000" has no port from 1 to 65535: write host:port, such as "10.0.0.5:8000"`,
			`4: pipelines[0].upstreams[0].static_configs[0].targets[2]: "a:http" has no port from 1 to 65535: write host:port, such as "10.0.0.5:8000"`,
			`4: pipelines[0].upstreams[0].static_configs[0].targets[3]: "a:" has no port from 1 to 65535: write host:port, such as "10.0.0.5:8000"`,
		},
		"target-no-port": {`4: pipelines[0].upstreams[0].static_configs[0].targets[0]: "10.0.0.5" has no port: write host:port, such as "10.0.0.5:8000"`},
		"target-path":    {`4: pipelines[0].upstreams[0].static_configs[0].targets[0]: "a:1/metrics" holds a path: write host:port, such as "10.0.0.5:8000", and put the path under metrics_path`},
		"target-scheme":  {`4: pipelines[0].upstreams[0].static_configs[0].targets[0]: "http://a:1" holds a scheme: write host:port, such as "10.0.0.5:8000", and put http or https under scheme`},
		"target-twice":   {`8: pipelines[0].upstreams[1].static_configs[0].targets[0]: "GPU:01" is already scraped by line 5: a pipeline scrapes a target once, remove one of the two`},
		"target-user":    {`4: pipelines[0].upstreams[0].static_configs[0].targets[0]: "...@a:1" holds a user: write host:port, such as "10.0.0.5:8000", and put credentials under basic_auth`},
		"type-list":      {`4: pipelines[0].upstreams[0].static_configs: want a list, found keys and values: put each item on a line of its own after "- ", or all between [ and ]`},
		"type-list-item": {`5: pipelines[0].upstreams[1]: the item is empty: fill it in or remove it`},
		"type-mapping": {
			`1: global: want keys and values, found a list`,
			`2: events: want keys and values, found a single value`,
		},
		"type-scalar": {
			`2: global.scrape_timeout: want a duration such as 500ms, 10s or 1h30m, found a list`,
			`3: global.min_scrape_interval: want a duration such as 500ms, 10s or 1h30m, found "soon"`,
			`4: global.body_size_limit: want a size such as 512KB, 32MB or 1GB, or 0, found "32"`,
			`5: global.sample_limit: want a whole number, found "1.5"`,
			`6: normalize_names: want true or false, found "perhaps"`,
			`7: omni_prefix: want text, found keys and values`,
		},
		"upstream-empty-targets":       {`5: pipelines[0].upstreams[0].static_configs[0].targets: no targets: write addresses such as "10.0.0.5:8000"`},
		"upstream-label-stage-unknown": {`4: pipelines[0].upstreams[0].static_configs[0].labels.stage: "7" is no stage of this pipeline: its stages are "0", "1"`},
		"upstream-no-targets":          {`4: pipelines[0].upstreams[0]: no targets: add static_configs with the addresses of servers, or another way to find them`},
		"upstream-stage-name":          {`4: pipelines[0].upstreams[0].stage: "talker" is the name of a stage: write its label, "1"`},
		"upstream-stage-unknown":       {`4: pipelines[0].upstreams[0].stage: "2" is no stage of this pipeline: its stages are "0", "1"`},
	}
}

// Each rule has a file that breaks it. The whole message is compared: it is what a person sees, and sees at once.
func TestInvalidFiles(t *testing.T) {
	want := invalidFiles()
	files, err := filepath.Glob("testdata/invalid-*.yml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(want) {
		t.Errorf("%d files, %d expectations", len(files), len(want))
	}
	for _, file := range files {
		rule := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "invalid-"), ".yml")
		t.Run(rule, func(t *testing.T) {
			_, err := Load(file)
			if err == nil {
				t.Fatal("accepted")
			}
			var lines []string
			for _, line := range want[rule] {
				lines = append(lines, file+":"+line)
			}
			if got, want := err.Error(), strings.Join(lines, "\n"); got != want {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Error("no *Error in it")
			}
		})
	}
}

// 2,000 aliases of 2,000 targets each stand for four million targets in a file of some 100 kB.
func TestAliasesDoNotMultiply(t *testing.T) {
	var b strings.Builder
	b.WriteString("pipelines:\n  - upstreams: [{static_configs: &s [{targets: [" + strings.Repeat(`"a:1", `, 2000) + "]}]}]\n")
	b.WriteString(strings.Repeat("  - upstreams: [{static_configs: *s}]\n", 2000))
	_, err := Parse("aliases.yml", []byte(b.String()))
	if err == nil || !strings.Contains(err.Error(), "repeated too often by aliases: write it out") {
		t.Errorf("got %v", err)
	}
}

func TestFaultsAreShownUpToABound(t *testing.T) {
	_, err := Parse("many.yml", []byte("include: ["+strings.Repeat(`"[", `, maxFaults+7)+"]"))
	if err == nil {
		t.Fatal("accepted")
	}
	lines := strings.Split(err.Error(), "\n")
	if got, want := lines[len(lines)-1], "7 more faults: mend these first"; len(lines) != maxFaults+1 || got != want {
		t.Errorf("%d lines, the last is %q", len(lines), got)
	}
}

func TestErrorSaysWhatItKnows(t *testing.T) {
	for _, tc := range []struct {
		err  Error
		want string
	}{
		{Error{Source: "a.yml", Line: 3, Path: "b.c", Msg: "m"}, "a.yml:3: b.c: m"},
		{Error{Source: "a.yml", Line: 3, Msg: "m"}, "a.yml:3: m"},
		{Error{Source: "a.yml", Path: "b", Msg: "m"}, "a.yml: b: m"},
		{Error{Source: "--stages", Msg: "m"}, "--stages: m"},
	} {
		if got := tc.err.Error(); got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
	}
}

// Whatever the bytes, a configuration comes back or faults do, and what comes back prints as a configuration.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("fuzz.yml", data)
		if err != nil {
			if c != nil {
				t.Error("a configuration and an error")
			}
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Errorf("%T: %v", err, err)
			}
			return
		}
		printed := c.String()
		again, err := Parse("printed.yml", []byte(printed))
		if err != nil {
			t.Fatal(fmt.Errorf("printed configuration: %w\n%s", err, printed))
		}
		if second := again.String(); second != printed {
			t.Errorf("printed:\n%s\nread and printed again:\n%s", printed, second)
		}
	})
}
