package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/relabel"
)

// maxDataParallelSize is far above what is run; ranks are ports, of which there are 65535.
const maxDataParallelSize = 65535

func (c *Config) validatePipelines(r *report) {
	names := map[string]string{}
	for i := range c.Pipelines {
		p, at := &c.Pipelines[i], index("pipelines", i)
		if p.Name == "" && len(c.Pipelines) > 1 {
			r.add(at, "name required when there is more than one pipeline: add name, it becomes the label pipeline")
		} else if first, ok := names[p.Name]; ok {
			r.add(sub(at, "name"), "%s is already the name of another pipeline, %s: give each its own", quote(p.Name), r.where(first))
		}
		names[p.Name] = at
		p.validate(r, at)
	}
}

func (p *Pipeline) validate(r *report, at string) {
	if p.OnUnmapped != UnmappedKeep && p.OnUnmapped != UnmappedDrop {
		r.add(sub(at, "on_unmapped"), "%s is neither keep nor drop: write one of the two", quote(string(p.OnUnmapped)))
	}
	p.validateStages(r, sub(at, "stages"))
	seen := places{pipeline: p, addresses: map[string]string{}, replicas: map[[2]string]string{}, numbered: map[string]numbering{}}
	for i := range p.Upstreams {
		p.Upstreams[i].validate(r, index(sub(at, "upstreams"), i), &seen)
	}
}

func (p *Pipeline) validateStages(r *report, at string) {
	if len(p.Stages) == 0 {
		r.add(at, "no stages: list them in order, such as [{name: thinker}, {name: talker, replicas: 2}]")
	}
	names, labels, engines := map[string]int{}, map[string]int{}, 0
	for i, s := range p.Stages {
		stageAt, label := index(at, i), p.StageLabel(i)
		if first, ok := names[s.Name]; ok && s.Name != "" {
			r.add(sub(stageAt, "name"), "%s is already the name of stage %d of this list: give each stage its own", quote(s.Name), first)
		}
		if first, ok := labels[label]; ok {
			r.add(sub(stageAt, "stage"), "%s is already the label of stage %d of this list: give each stage its own", quote(label), first)
		}
		names[s.Name], labels[label] = i, i
		switch {
		case s.Replicas < 1:
			r.add(sub(stageAt, "replicas"), "must be at least 1, found %d: remove the stage if nothing runs it", s.Replicas)
		case s.Replicas > MaxEngines-engines:
			r.add(sub(stageAt, "replicas"), "%d makes more than %d engines in the pipeline: check the number", s.Replicas, MaxEngines)
		default:
			engines += s.Replicas
		}
	}
}

// places are the targets of a pipeline seen so far.
type places struct {
	pipeline  *Pipeline
	addresses map[string]string    // by address: the path it is at
	replicas  map[[2]string]string // by stage and replica: the path of the target that has it
	numbered  map[string]numbering // by stage
}

// numbering is how the targets of a stage came by their replicas, by the first of them. Mixed ways give the same number twice.
type numbering struct {
	given bool // replica is written, and not the running number
	size  int  // data_parallel_size
}

func (u *Upstream) validate(r *report, at string, seen *places) {
	u.ScrapeOptions.validate(r, at)
	if u.Scheme != "http" && u.Scheme != "https" {
		r.add(sub(at, "scheme"), "%s is neither http nor https: write one of the two", quote(u.Scheme))
	}
	if !strings.HasPrefix(u.MetricsPath, "/") || strings.ContainsAny(u.MetricsPath, "?# \t\r\n") {
		r.add(sub(at, "metrics_path"), "%s is no path: begin it with \"/\" and put what follows a \"?\" under params", quote(u.MetricsPath))
	}
	if err := u.HTTPClient.Validate(); err != nil {
		r.add(at, "%s", err)
	}
	validateRules(r, sub(at, "relabel_configs"), u.RelabelConfigs)
	validateRules(r, sub(at, "metric_relabel_configs"), u.MetricRelabelConfigs)
	ruled := len(u.RelabelConfigs) > 0 // rules may add what is missing here
	if u.Stage != "" {
		seen.pipeline.validateStageLabel(r, sub(at, "stage"), u.Stage)
	}
	if u.Replica != "" && u.Stage == "" && !ruled {
		r.add(sub(at, "replica"), "a replica is of a stage: add stage, or remove replica")
	}
	if !validDataParallelSize(r, sub(at, "data_parallel_size"), u.DataParallelSize) {
		return
	}
	if u.Replica != "" {
		u.validateReplica(r, sub(at, "replica"), u.Replica)
	}
	u.Discovery.validate(r, at)
	if u.Replica != "" && u.Discovers() && !ruled {
		r.add(sub(at, "replica"), "a replica is one target, and discovery may find several: have relabel_configs set replica, or remove it")
	}
	if len(u.StaticConfigs) == 0 && !u.Discovers() {
		r.add(at, "no targets: add static_configs with the addresses of servers, or another way to find them")
	}
	for i, group := range u.StaticConfigs {
		u.validateGroup(r, index(sub(at, "static_configs"), i), group, seen)
	}
}

// validDataParallelSize reports a number of ranks that cannot be, and returns whether it can.
func validDataParallelSize(r *report, at string, n int) bool {
	if n < 1 || n > maxDataParallelSize {
		r.add(at, "must be from 1 to %d, found %d: write the number of data-parallel ranks, or remove the key for 1", maxDataParallelSize, n)
		return false
	}
	return true
}

// validateReplica reports a replica from which ranks cannot be counted on.
func (u *Upstream) validateReplica(r *report, at, replica string) {
	if _, err := strconv.ParseUint(replica, 10, 32); err != nil && u.DataParallelSize > 1 {
		r.add(at, "%s is no number, and data_parallel_size counts on from it: write a number, or remove data_parallel_size", quote(replica))
	}
}

// validateStageLabel reports a label that no stage of the pipeline has. People write the name where the label is wanted.
func (p *Pipeline) validateStageLabel(r *report, at, label string) {
	if _, ok := p.StageIndex(label); ok {
		return
	}
	labels := make([]string, 0, len(p.Stages))
	for i, s := range p.Stages {
		if s.Name == label {
			r.add(at, "%s is the name of a stage: write its label, %s", quote(label), quote(p.StageLabel(i)))
			return
		}
		labels = append(labels, quote(p.StageLabel(i)))
	}
	r.add(at, "%s is no stage of this pipeline: its stages are %s", quote(label), strings.Join(labels, ", "))
}

func (u *Upstream) validateGroup(r *report, at string, group StaticConfig, seen *places) {
	targetsAt := sub(at, "targets")
	if len(group.Targets) == 0 {
		r.add(targetsAt, "no targets: write addresses such as \"10.0.0.5:8000\"")
	}
	u.validateLabels(r, sub(at, "labels"), group.Labels, seen.pipeline)
	stage, replica := u.Place(group)
	if u.DataParallelSize > 1 && stage == "" && len(u.RelabelConfigs) == 0 {
		r.add(at, "data_parallel_size needs the stage of the targets: add stage, or remove data_parallel_size and let the flat map count")
	}
	for i, address := range group.Targets {
		targetAt := index(targetsAt, i)
		host, port, fault := splitAddress(address)
		if other, remedy := misplaced(address); other != "" || fault != "" {
			r.add(targetAt, "%s %s: write host:port, such as \"10.0.0.5:8000\"%s", quote(withoutUser(address)), cmp.Or(other, fault), remedy)
			continue
		}
		// Rules may give targets other addresses and places than those written here.
		if len(u.RelabelConfigs) == 0 {
			seen.address(r, targetAt, fmt.Sprintf("%s:%d", strings.ToLower(host), port), address)
			if stage != "" {
				seen.place(r, targetAt, stage, replica, u.DataParallelSize)
			}
		}
	}
}

// address reports an address that the pipeline scrapes already.
func (s *places) address(r *report, at, canonical, written string) {
	if first, ok := s.addresses[canonical]; ok {
		r.add(at, "%s is already scraped by %s: a pipeline scrapes a target once, remove one of the two", quote(written), r.where(first))
		return
	}
	s.addresses[canonical] = at
}

// place reports a target whose engines would have the stage and replica of others.
func (s *places) place(r *report, at, stage, replica string, size int) {
	n := numbering{given: replica != "", size: size}
	first, ok := s.numbered[stage]
	switch {
	case !ok:
		s.numbered[stage] = n
	case first.given != n.given:
		r.add(at, "some targets of stage %s have a replica and some have not, so that a number could come twice: give each one or none", quote(stage))
	case first.size != n.size:
		r.add(at, "targets of stage %s have different data_parallel_size, so that a number could come twice: make them equal", quote(stage))
	}
	if replica == "" {
		return
	}
	key := [2]string{stage, replica}
	if first, ok := s.replicas[key]; ok {
		r.add(at, "stage %s, replica %s is already taken by %s: a replica is one target, give each its own or remove replica", quote(stage), quote(replica), r.where(first))
		return
	}
	s.replicas[key] = at
}

// validateLabels reports labels that a target must not bring.
func (u *Upstream) validateLabels(r *report, at string, labels map[string]string, p *Pipeline) {
	for _, name := range sortedKeys(labels) {
		labelAt, value := sub(at, name), labels[name]
		switch {
		// Older Prometheus servers know no other names, and what is added must be readable by all.
		case !model.LegacyValidation.IsValidLabelName(name):
			r.add(labelAt, "no valid label name: write letters, digits and \"_\", and no digit first")
		case strings.HasPrefix(name, model.ReservedLabelPrefix):
			r.add(labelAt, "labels that begin with \"__\" are reserved: choose another name")
		case name == model.BucketLabel, name == model.QuantileLabel:
			r.add(labelAt, "reserved for histograms and summaries: choose another name")
		case name == "engine":
			r.add(labelAt, "comes from the server and becomes stage and replica: set those, or choose another name")
		case name == "pipeline":
			r.add(labelAt, "is the name of the pipeline: set name there")
		case name == "stage" && u.Stage != "", name == "replica" && u.Replica != "":
			r.add(labelAt, "is already set by the upstream: keep one of the two")
		case name == "stage" && value != "":
			p.validateStageLabel(r, labelAt, value)
		case name == "replica" && value != "":
			if stage, _ := u.Place(StaticConfig{Labels: labels}); stage == "" && len(u.RelabelConfigs) == 0 {
				r.add(labelAt, "a replica is of a stage: add stage, or remove replica")
			}
			u.validateReplica(r, labelAt, value)
		}
	}
}

// validateRules reports rules of relabeling that cannot be, by Prometheus's own check. It also tells each rule which label
// names may come out: those that every version of Prometheus can read.
func validateRules(r *report, at string, rules []*relabel.Config) {
	for i, rule := range rules {
		if err := rule.Validate(model.LegacyValidation); err != nil {
			r.add(index(at, i), "%s", err)
		}
	}
}

// misplaced says what else than host and port stands in the address of a server, and which key that belongs to.
func misplaced(address string) (fault, remedy string) {
	switch {
	case strings.Contains(address, "@"):
		return "holds a user", ", and put credentials under basic_auth"
	case strings.Contains(address, "://"):
		return "holds a scheme", ", and put http or https under scheme"
	case strings.ContainsAny(address, "/?#"):
		return "holds a path", ", and put the path under metrics_path"
	}
	return "", ""
}

// splitAddress splits "host:port", or says what is wrong with it.
func splitAddress(s string) (host string, port int, fault string) {
	colon := strings.LastIndexByte(s, ':')
	if colon < 0 {
		return "", 0, "has no port"
	}
	host = s[:colon]
	n, err := strconv.ParseUint(s[colon+1:], 10, 16)
	switch {
	case err != nil || n == 0:
		return "", 0, "has no port from 1 to 65535"
	case strings.Count(host, ":") > 0 && host[0] != '[':
		return "", 0, "has an IPv6 address without [ and ]"
	case !validHost(host):
		return "", 0, "has no valid host"
	}
	return host, int(n), ""
}

// validHost reports whether s is a name, an IPv4 address or an IPv6 address in brackets.
func validHost(s string) bool {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		ip, err := netip.ParseAddr(inner)
		return ok && err == nil && ip.Is6()
	}
	return s != "" && strings.IndexFunc(s, func(c rune) bool {
		return c <= ' ' || c == 0x7f || strings.ContainsRune(`:*,;"'\<>[]{}|^`+"`", c)
	}) < 0
}

// withoutUser cuts what stands before the host, which may be a password.
func withoutUser(s string) string {
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		return "..." + s[at:]
	}
	return s
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
