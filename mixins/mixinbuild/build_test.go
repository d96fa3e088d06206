package mixinbuild

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const (
	source      = "../omni-mixin"
	otherPrefix = `{ omniPrefix: 'vllm_omni:' }`
)

// standard is the mixin without overrides, evaluated once for all tests.
var standard = sync.OnceValues(func() (*Output, error) { return Build(os.DirFS(source), "{}") })

// build evaluates the mixin of the work tree.
func build(t *testing.T, config string) *Output {
	t.Helper()
	evaluate := standard
	if config != "{}" {
		evaluate = func() (*Output, error) { return Build(os.DirFS(source), config) }
	}
	out, err := evaluate()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestGeneratedFilesAreCurrent(t *testing.T) {
	out := build(t, "{}")
	files := map[string][]byte{
		source + "/prometheus_alerts.yaml":                            out.Alerts,
		source + "/prometheus_rules.yaml":                             out.Rules,
		"../../deploy/kubernetes/monitoring/omni-prometheusrule.yaml": out.PrometheusRule,
		"../../deploy/kubernetes/monitoring/omni-dashboards.yaml":     out.ConfigMaps,
	}
	for name, text := range out.Dashboards {
		files["../../dashboards/"+name] = text
	}
	for name, want := range files {
		got, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is stale: run make generate", name)
		}
	}
	committed, err := filepath.Glob("../../dashboards/*.json")
	if err != nil || len(committed) != len(out.Dashboards) {
		t.Errorf("dashboards/ has %d files, the mixin %d dashboards (%v)", len(committed), len(out.Dashboards), err)
	}
}

func TestJsonnetIsFormatted(t *testing.T) {
	err := fs.WalkDir(os.DirFS(source), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "sonnet") {
			return err
		}
		text, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return err
		}
		formatted, err := Format(name, string(text))
		if err == nil && formatted != string(text) {
			t.Errorf("%s is not formatted: run make generate", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestConfig(t *testing.T) {
	out := build(t, otherPrefix)
	all := [][]byte{out.Alerts, out.Rules, out.PrometheusRule, out.ConfigMaps}
	for _, d := range out.Dashboards {
		all = append(all, d)
	}
	for _, text := range all {
		if bytes.Contains(text, []byte("vllm:omni_")) || !bytes.Contains(text, []byte("vllm_omni:")) && bytes.Contains(text, []byte("_audio_")) {
			t.Error("the other prefix has not reached everything")
		}
	}

	groups := ruleGroups(t, build(t, `{
		enableAudio: false, enableTransfer: false, enableForwardPass: false, enableSlo: false, enableExporter: false,
		selector: 'cluster="a"', commonLabels: ['cluster', 'job'], criticalSeverity: 'page',
	}`))
	for _, g := range groups {
		if g.Name != "omni-pipeline" {
			t.Errorf("group %s is there although it is switched off", g.Name)
		}
		for _, r := range g.Rules {
			if !strings.Contains(r.Expr, `cluster="a"`) || !strings.Contains(r.Expr, "(cluster, job") || strings.Contains(r.Expr, "pipeline") {
				t.Errorf("%s does not have the matcher and labels of the configuration: %s", r.Alert, r.Expr)
			}
			if r.Labels["severity"] == "critical" {
				t.Errorf("%s has another name for critical than configured", r.Alert)
			}
		}
	}

	without := build(t, `{ slos+: { e2e: null, ttft+: { threshold: '0.5' } } }`)
	if bytes.Contains(without.Alerts, []byte("OmniE2eBudgetBurn")) || !bytes.Contains(without.Rules, []byte(`le=\"0.5\"`)) && !bytes.Contains(without.Rules, []byte(`le="0.5"`)) {
		t.Error("an objective cannot be removed and another changed")
	}
}

func TestBuildErrors(t *testing.T) {
	for config, want := range map[string]string{
		`{ slos+: { ttft+: { target: 0.9 } } }`: "slo ttft: a target of 0.9",
		`{ nonsense`:                            "<top-level-arg:config>",
	} {
		if _, err := Build(os.DirFS(source), config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", config, err, want)
		}
	}
	if _, err := Build(os.DirFS(t.TempDir()), "{}"); err == nil {
		t.Error("no error without a mixin")
	}
}
