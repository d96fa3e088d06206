// Package deploy_test checks that what is here to be deployed fits what it is
// deployed on: by the types of the Kubernetes API and of Prometheus Operator, by the
// exporter's own configuration, and by systemd where it is.
package deploy_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/omni-exporter/omni_exporter/internal/config"
)

// manifest is one document of a manifest file.
type manifest struct {
	file string
	kind string
	text []byte
}

// manifests returns every document below kubernetes/.
func manifests(t *testing.T) []manifest {
	t.Helper()
	var out []manifest
	err := filepath.WalkDir("kubernetes", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		decoder := yaml.NewDecoder(bytes.NewReader(text))
		for {
			var document map[string]any
			if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			one, err := yaml.Marshal(document)
			if err != nil {
				return err
			}
			kind, _ := document["kind"].(string)
			out = append(out, manifest{path, kind, one})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// decode reads a manifest into the API's own type, in which every key must be known.
func decode[T any](t *testing.T, m manifest) T {
	t.Helper()
	var out T
	if err := k8syaml.UnmarshalStrict(m.text, &out); err != nil {
		t.Errorf("%s: %s: %v", m.file, m.kind, err)
	}
	return out
}

func of[T any](t *testing.T, kind string) []T {
	t.Helper()
	var out []T
	for _, m := range manifests(t) {
		if m.kind == kind {
			out = append(out, decode[T](t, m))
		}
	}
	if len(out) == 0 {
		t.Fatalf("no %s", kind)
	}
	return out
}

// TestManifests reads every manifest strictly, those that are generated too.
func TestManifests(t *testing.T) {
	for _, m := range manifests(t) {
		switch m.kind {
		case "Namespace":
			decode[corev1.Namespace](t, m)
		case "ServiceAccount":
			decode[corev1.ServiceAccount](t, m)
		case "Role":
			decode[rbacv1.Role](t, m)
		case "RoleBinding":
			decode[rbacv1.RoleBinding](t, m)
		case "ConfigMap":
			decode[corev1.ConfigMap](t, m)
		case "ConfigMapList":
			decode[corev1.ConfigMapList](t, m)
		case "Deployment":
			decode[appsv1.Deployment](t, m)
		case "Service":
			decode[corev1.Service](t, m)
		case "NetworkPolicy":
			decode[networkingv1.NetworkPolicy](t, m)
		case "PodMonitor":
			decode[monitoringv1.PodMonitor](t, m)
		case "PrometheusRule":
			decode[monitoringv1.PrometheusRule](t, m)
		case "Kustomization":
		default:
			t.Errorf("%s: kind %q is not checked here", m.file, m.kind)
		}
	}
}

// TestKustomization demands that it names files that are there.
func TestKustomization(t *testing.T) {
	text, err := os.ReadFile("kubernetes/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var kustomization struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Resources  []string
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&kustomization); err != nil {
		t.Fatal(err)
	}
	for _, resource := range kustomization.Resources {
		if _, err := os.Stat(filepath.Join("kubernetes", resource)); err != nil {
			t.Error(err)
		}
	}
	for _, m := range manifests(t) {
		name, err := filepath.Rel("kubernetes", m.file)
		if err != nil {
			t.Fatal(err)
		}
		if m.kind != "Kustomization" && !strings.HasPrefix(name, "monitoring") && !slices.Contains(kustomization.Resources, name) {
			t.Errorf("%s is in no kustomization", m.file)
		}
	}
}

// TestManifestsFitTogether holds against each other what must say the same.
func TestManifestsFitTogether(t *testing.T) {
	deployment := of[appsv1.Deployment](t, "Deployment")[0]
	pod := deployment.Spec.Template
	for name, selector := range map[string]map[string]string{
		"Deployment":    deployment.Spec.Selector.MatchLabels,
		"Service":       of[corev1.Service](t, "Service")[0].Spec.Selector,
		"PodMonitor":    of[monitoringv1.PodMonitor](t, "PodMonitor")[0].Spec.Selector.MatchLabels,
		"NetworkPolicy": of[networkingv1.NetworkPolicy](t, "NetworkPolicy")[0].Spec.PodSelector.MatchLabels,
	} {
		if len(selector) == 0 {
			t.Errorf("%s selects everything", name)
		}
		for key, value := range selector {
			if pod.Labels[key] != value {
				t.Errorf("%s selects %s=%s, pods have %q", name, key, value, pod.Labels[key])
			}
		}
	}
	container := pod.Spec.Containers[0]
	port := container.Ports[0]
	if port.Name != "http" || port.ContainerPort != 10380 {
		t.Errorf("container port %+v", port)
	}
	if service := of[corev1.Service](t, "Service")[0].Spec.Ports[0]; service.TargetPort.StrVal != port.Name || service.Port != port.ContainerPort {
		t.Errorf("service port %+v", service)
	}
	endpoint := of[monitoringv1.PodMonitor](t, "PodMonitor")[0].Spec.PodMetricsEndpoints[0]
	if endpoint.Port == nil || *endpoint.Port != port.Name || !endpoint.HonorLabels {
		t.Errorf("monitored endpoint %+v: it must be the container's port, with honorLabels", endpoint)
	}
	maps := of[corev1.ConfigMap](t, "ConfigMap")
	var mounted *corev1.ConfigMap
	for i := range maps {
		if maps[i].Name == pod.Spec.Volumes[0].ConfigMap.Name {
			mounted = &maps[i]
		}
	}
	if mounted == nil {
		t.Fatalf("no ConfigMap %s", pod.Spec.Volumes[0].ConfigMap.Name)
	}
	file := strings.TrimPrefix(container.Args[0], "--config.file="+container.VolumeMounts[0].MountPath+"/")
	text, ok := mounted.Data[file]
	if !ok {
		t.Fatalf("%s names a file that the ConfigMap does not have", container.Args[0])
	}
	if _, err := config.Parse(file, []byte(text)); err != nil {
		t.Errorf("configuration in %s: %v", mounted.Name, err)
	}
}

// TestLeastRights demands no more than finding pods takes, and a pod without rights on
// its node.
func TestLeastRights(t *testing.T) {
	want := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}}}
	for _, role := range of[rbacv1.Role](t, "Role") {
		if len(role.Rules) != 1 || role.Rules[0].String() != want[0].String() {
			t.Errorf("role %s allows %v, want %v", role.Name, role.Rules, want)
		}
	}
	spec := of[appsv1.Deployment](t, "Deployment")[0].Spec.Template.Spec
	c := spec.Containers[0].SecurityContext
	if s := spec.SecurityContext; s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile == nil || c.AllowPrivilegeEscalation == nil ||
		*c.AllowPrivilegeEscalation || c.ReadOnlyRootFilesystem == nil || !*c.ReadOnlyRootFilesystem || !slices.Contains(c.Capabilities.Drop, "ALL") {
		t.Errorf("pod %+v, container %+v", s, c)
	}
	namespace := of[corev1.Namespace](t, "Namespace")[0]
	for _, object := range []metav1.ObjectMeta{
		of[appsv1.Deployment](t, "Deployment")[0].ObjectMeta, of[corev1.ServiceAccount](t, "ServiceAccount")[0].ObjectMeta,
		of[networkingv1.NetworkPolicy](t, "NetworkPolicy")[0].ObjectMeta,
	} {
		if object.Namespace != namespace.Name {
			t.Errorf("%s is in namespace %q, want %q", object.Name, object.Namespace, namespace.Name)
		}
	}
}

// TestPrometheusExamples reads them as YAML, and demands honor_labels of each job;
// promtool reads them in the integration tests.
func TestPrometheusExamples(t *testing.T) {
	files, err := filepath.Glob("prometheus/*.yml")
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var c struct {
			ScrapeConfigs []struct {
				JobName     string `yaml:"job_name"`
				HonorLabels bool   `yaml:"honor_labels"`
			} `yaml:"scrape_configs"`
		}
		if err := yaml.Unmarshal(text, &c); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, job := range c.ScrapeConfigs {
			if !job.HonorLabels {
				t.Errorf("%s: job %s does not honor labels", file, job.JobName)
			}
		}
		if len(c.ScrapeConfigs) == 0 {
			t.Errorf("%s: no job", file)
		}
	}
}

// TestDockerfile demands that what it copies is what promu builds and the tree has,
// that its ignore file lets all of it through, and that it does not run as root.
func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile("container/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := os.ReadFile("container/Dockerfile.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	promu, err := os.ReadFile("../.promu.yml")
	if err != nil {
		t.Fatal(err)
	}
	copies := regexp.MustCompile(`(?m)^COPY (.+) +\S+$`).FindAllStringSubmatch(string(text), -1)
	if len(copies) != 4 {
		t.Errorf("%d lines copy: %q", len(copies), copies)
	}
	for _, line := range copies {
		for source := range strings.FieldsSeq(line[1]) {
			top, _, _ := strings.Cut(source, "/")
			if !strings.Contains(string(ignored), "!"+top) {
				t.Errorf("%s is ignored", source)
			}
			if program, built := strings.CutPrefix(source, ".build/${OS}-${ARCH}/"); built {
				if !strings.Contains(string(promu), "- name: "+program+"\n") {
					t.Errorf("promu builds no %s", program)
				}
			} else if _, err := os.Stat(filepath.Join("..", source)); err != nil {
				t.Error(err)
			}
		}
	}
	if user := regexp.MustCompile(`(?m)^USER ([1-9]\d*):`).FindSubmatch(text); user == nil {
		t.Error("no user, or root")
	}
}

// TestSystemdUnit lets systemd itself read the unit, where it is.
func TestSystemdUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip(err)
	}
	text, err := os.ReadFile("systemd/omni_exporter.service")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// systemd wants the program to be there.
	unit := filepath.Join(t.TempDir(), "omni_exporter.service")
	if err := os.WriteFile(unit, bytes.ReplaceAll(text, []byte("/usr/local/bin/omni_exporter"), []byte(program)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), analyze, "verify", unit).CombinedOutput(); err != nil || strings.Contains(string(out), unit) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// The scale is systemd's own, 0 to 100 in tenths: 20 is what it calls OK.
	out, err := exec.CommandContext(t.Context(), analyze, "security", "--offline=true", "--threshold=20", unit).CombinedOutput()
	if strings.Contains(string(out), "unrecognized option") {
		t.Skip("this systemd cannot judge a unit that is not loaded")
	}
	if err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}
