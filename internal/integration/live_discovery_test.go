//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A change of a file is on the page of the next scrape.
func TestLiveFileDiscovery(t *testing.T) {
	a, b := startUpstream(t, 1), startUpstream(t, 2)
	file := filepath.Join(t.TempDir(), "targets.json")
	list := func(addresses ...string) string {
		out, err := json.Marshal([]map[string]any{{"targets": addresses, "labels": map[string]string{"zone": "z"}}})
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	replaceFile(t, file, list(a.address))
	exporter, url := startExporter(t, "--config.file="+writeConfig(t, fmt.Sprintf(`
global: {min_scrape_interval: 0s}
pipelines: [{stages: [{}], upstreams: [{stage: "0", file_sd_configs: [{files: [%q]}]}]}]
`, file)))
	awaitTargets(t, exporter, url, a.address)
	replaceFile(t, file, list(a.address, b.address))
	awaitTargets(t, exporter, url, a.address, b.address)
	replaceFile(t, file, list(b.address))
	awaitTargets(t, exporter, url, b.address)
	replaceFile(t, file, `[]`)
	awaitTargets(t, exporter, url)
}

// resolver is a DNS server that knows one name.
type resolver struct {
	mu        sync.Mutex
	addresses []string
}

func (r *resolver) set(addresses ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addresses = addresses
}

// ServeDNS implements dns.Handler.
func (r *resolver) ServeDNS(w dns.ResponseWriter, question *dns.Msg) {
	r.mu.Lock()
	defer r.mu.Unlock()
	answer := &dns.Msg{}
	answer.SetReply(question)
	for _, q := range question.Question {
		if q.Qtype != dns.TypeA || q.Name != "engines.test." {
			continue
		}
		for _, address := range r.addresses {
			answer.Answer = append(answer.Answer, &dns.A{
				Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}, A: net.ParseIP(address),
			})
		}
	}
	_ = w.WriteMsg(answer)
}

// A change in DNS is on the page of the first scrape after the name was asked for again. The exporter runs in a mount
// namespace of its own, in which /etc/resolv.conf names the resolver.
func TestLiveDNSDiscovery(t *testing.T) {
	const resolverAddress = "127.0.53.53" // discovery asks at port 53 alone
	names := &resolver{}
	packets, err := net.ListenPacket("udp", resolverAddress+":53")
	if err != nil {
		t.Skipf("no DNS server can be run at port 53 here: %v", err)
	}
	server := &dns.Server{PacketConn: packets, Handler: names}
	go func() { _ = server.ActivateAndServe() }()
	t.Cleanup(func() { _ = server.Shutdown() })

	// One port, and an address for each engine.
	listener, err := net.Listen("tcp", "127.0.53.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	serveEngine(t, listener, func() int { return 1 })
	second, err := net.Listen("tcp", net.JoinHostPort("127.0.53.2", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	serveEngine(t, second, func() int { return 2 })

	resolvConf := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(resolvConf, []byte("nameserver "+resolverAddress+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "unshare", "--mount", "mount", "--bind", resolvConf, "/etc/resolv.conf").CombinedOutput(); err != nil {
		t.Skipf("no mount namespace can be made here: %v: %s", err, out)
	}
	names.set("127.0.53.1")
	config := writeConfig(t, fmt.Sprintf(`
global: {min_scrape_interval: 0s}
pipelines: [{stages: [{}], upstreams: [{stage: "0", dns_sd_configs: [{names: [engines.test], type: A, port: %d, refresh_interval: 1s}]}]}]
`, port))
	address := freeAddress(t)
	exporter := start(t, "unshare", "--mount", "sh", "-c", `mount --bind "$1" /etc/resolv.conf && shift && exec "$@"`, "sh",
		resolvConf, programs.path(t, "omni_exporter"), "--config.file="+config, "--web.listen-address="+address)
	url := "http://" + address
	awaitReady(t, exporter, url)
	at := func(host string) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
	awaitTargets(t, exporter, url, at("127.0.53.1"))
	names.set("127.0.53.1", "127.0.53.2")
	awaitTargets(t, exporter, url, at("127.0.53.1"), at("127.0.53.2"))
	names.set("127.0.53.2")
	awaitTargets(t, exporter, url, at("127.0.53.2"))
}

// kubernetesAPI is as much of a Kubernetes API server as a client needs that lists and watches pods.
type kubernetesAPI struct {
	mu       sync.Mutex
	version  int
	pods     map[string]*corev1.Pod
	watchers map[chan metav1.WatchEvent]struct{}
	watched  chan struct{} // closed with the first watch
}

func newKubernetesAPI() *kubernetesAPI {
	return &kubernetesAPI{
		version: 1, pods: map[string]*corev1.Pod{}, watchers: map[chan metav1.WatchEvent]struct{}{}, watched: make(chan struct{}),
	}
}

// set adds or changes a pod, or deletes it if it has no labels.
func (k *kubernetesAPI) set(t *testing.T, name, address string, labels map[string]string) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.version++
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "inference", UID: types.UID("uid-" + name), Labels: labels, ResourceVersion: strconv.Itoa(k.version),
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "engine", Ports: []corev1.ContainerPort{
			{Name: "http", Protocol: corev1.ProtocolTCP, ContainerPort: int32(n)},
		}}}},
		Status: corev1.PodStatus{PodIP: host, Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: host}}},
	}
	kind := "MODIFIED"
	switch {
	case labels == nil:
		kind = "DELETED"
		delete(k.pods, name)
	case k.pods[name] == nil:
		kind = "ADDED"
		fallthrough
	default:
		k.pods[name] = pod
	}
	for w := range k.watchers {
		w <- event(t, kind, pod)
	}
}

func event(t *testing.T, kind string, object any) metav1.WatchEvent {
	raw, err := json.Marshal(object)
	if err != nil {
		t.Error(err)
	}
	out := metav1.WatchEvent{Type: kind}
	out.Object.Raw = raw
	return out
}

// handler answers lists and watches in JSON, as an API server may whatever it is asked for.
func (k *kubernetesAPI) handler(t *testing.T) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/inference/pods", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			k.mu.Lock()
			defer k.mu.Unlock()
			list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
			list.ResourceVersion = strconv.Itoa(k.version)
			for _, pod := range k.pods {
				list.Items = append(list.Items, *pod)
			}
			if err := json.NewEncoder(w).Encode(list); err != nil {
				t.Error(err)
			}
			return
		}
		k.watch(t, w, r)
	})
	return mux
}

func (k *kubernetesAPI) watch(t *testing.T, w http.ResponseWriter, r *http.Request) {
	events := make(chan metav1.WatchEvent, 100)
	encoder := json.NewEncoder(w)
	k.mu.Lock()
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for _, pod := range k.pods {
			events <- event(t, "ADDED", pod)
		}
		events <- event(t, "BOOKMARK", corev1.Pod{
			TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{
				ResourceVersion: strconv.Itoa(k.version), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
			},
		})
	}
	k.watchers[events] = struct{}{}
	if len(k.watchers) == 1 {
		select {
		case <-k.watched:
		default:
			close(k.watched)
		}
	}
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.watchers, events)
	}()
	control := http.NewResponseController(w)
	_ = control.Flush()
	for {
		select {
		case e := <-events:
			if err := encoder.Encode(e); err != nil {
				return
			}
			_ = control.Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// Pods that come, move to another stage and go are on the page of the next scrape.
func TestLiveKubernetesDiscovery(t *testing.T) {
	a, b := startUpstream(t, 1), startUpstream(t, 2)
	cluster := newKubernetesAPI()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: cluster.handler(t)}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })

	cluster.set(t, "a", a.address, map[string]string{"app": "vllm", "stage": "0"})
	cluster.set(t, "other", "127.0.0.1:1", map[string]string{"app": "web"})
	exporter, url := startExporter(t, "--config.file="+writeConfig(t, fmt.Sprintf(`
global: {min_scrape_interval: 0s}
pipelines:
- stages: [{name: prefill}, {name: decode}]
  upstreams:
  - kubernetes_sd_configs: [{role: pod, api_server: "http://%s", namespaces: {names: [inference]}}]
    relabel_configs:
    - {source_labels: [__meta_kubernetes_pod_label_app], regex: vllm, action: keep}
    - {source_labels: [__meta_kubernetes_pod_label_stage], target_label: stage}
    - {source_labels: [__meta_kubernetes_pod_name], target_label: replica}
    - {source_labels: [__meta_kubernetes_pod_container_port_name], target_label: port}
`, listener.Addr())))
	<-cluster.watched
	awaitTargets(t, exporter, url, a.address)
	place := func(stage, replica string) float64 {
		return value(t, families(t, get(t, url+"/metrics", acceptText)), "vllm:num_requests_running",
			map[string]string{"stage": stage, "replica": replica, "port": "http"})
	}
	if got := place("0", "a"); got != 1 {
		t.Errorf("the first pod's value is %v", got)
	}
	cluster.set(t, "b", b.address, map[string]string{"app": "vllm", "stage": "1"})
	awaitTargets(t, exporter, url, a.address, b.address)
	if got := place("1", "b"); got != 2 {
		t.Errorf("the second pod's value is %v", got)
	}
	cluster.set(t, "a", a.address, map[string]string{"app": "vllm", "stage": "1"})
	await(t, "move to another stage", readyTimeout, exporter, func(ctx context.Context) error {
		body, err := fetch(ctx, url+"/api/v1/targets", "")
		if err == nil && strings.Contains(body, `"stage":"0"`) {
			err = errors.New("still in the first")
		}
		return err
	})
	if got := place("1", "a"); got != 1 {
		t.Errorf("the moved pod's value is %v", got)
	}
	cluster.set(t, "a", a.address, nil)
	awaitTargets(t, exporter, url, b.address)
}
