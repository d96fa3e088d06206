package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/VictoriaMetrics/VictoriaMetrics/lib/prompb"
	"github.com/VictoriaMetrics/VictoriaMetrics/lib/promrelabel"
	vmparser "github.com/VictoriaMetrics/VictoriaMetrics/lib/protoparser/prometheus"
	"github.com/omni-exporter/omni_exporter/internal/exposition"
	"github.com/omni-exporter/omni_exporter/relabel"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	promrelabel1 "github.com/prometheus/prometheus/model/relabel"
	"github.com/prometheus/prometheus/model/textparse"
	"go.yaml.in/yaml/v3"
)

// contender turns a page into one with stage and replica in place of engine, or
// does the part of that which its name says.
type contender struct {
	name string
	do   func(page []byte) error
}

func rules(engines int) *relabel.Rules {
	return relabel.NewRules(relabel.Options{
		Topology: relabel.FlatTopology([]relabel.Pool{{Stage: "0", Replicas: engines}}), OmniPrefix: "vllm:omni_", Aliases: true,
	})
}

// oursCold rewrites each page as if it were the target's first.
func oursCold(engines int) contender {
	r, buffers := rules(engines), &exposition.Buffers{}
	return contender{"omni_exporter, first page", func(page []byte) error {
		result, _, err := relabel.NewTarget(r, buffers).Rewrite(page, exposition.Text)
		if err == nil {
			result.Page.Release()
		}
		return err
	}}
}

// oursWarm rewrites page after page of one target.
func oursWarm(engines int) contender {
	t := relabel.NewTarget(rules(engines), &exposition.Buffers{})
	var last *exposition.Page
	return contender{"omni_exporter, later page", func(page []byte) error {
		result, _, err := t.Rewrite(page, exposition.Text)
		if err != nil {
			return err
		}
		if last != nil {
			last.Release()
		}
		last = result.Page
		return nil
	}}
}

// expfmtRoundTrip parses into the client library's data model, relabels there and
// encodes again: how most merging proxies in Go work.
func expfmtRoundTrip() contender {
	var out bytes.Buffer
	return contender{"expfmt: parse, relabel, encode", func(page []byte) error {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
		if err != nil {
			return err
		}
		out.Reset()
		for _, f := range families {
			for _, m := range f.Metric {
				m.Label = placeDTO(m.Label)
			}
			if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
				return err
			}
		}
		return nil
	}}
}

func placeDTO(in []*dto.LabelPair) []*dto.LabelPair {
	for i, l := range in {
		if l.GetName() != "engine" {
			continue
		}
		stage, replica, zero := "stage", "replica", "0"
		value := l.GetValue()
		in[i] = &dto.LabelPair{Name: &replica, Value: &value}
		return append(in, &dto.LabelPair{Name: &stage, Value: &zero})
	}
	return in
}

// promConfig is the same map as relabel rules, in the form that both Prometheus and
// VictoriaMetrics read.
func promConfig(engines int) string {
	var b strings.Builder
	for i := range engines {
		fmt.Fprintf(&b, "- {source_labels: [engine], regex: %q, target_label: stage, replacement: \"0\"}\n", strconv.Itoa(i))
		fmt.Fprintf(&b, "- {source_labels: [engine], regex: %q, target_label: replica, replacement: %q}\n", strconv.Itoa(i), strconv.Itoa(i))
	}
	b.WriteString("- {regex: engine, action: labeldrop}\n")
	return b.String()
}

// prometheusParse parses with Prometheus's own parser and relabels the labels of
// every series; nothing is written.
func prometheusParse(engines int) (contender, error) {
	var cfgs []*promrelabel1.Config
	if err := yaml.Unmarshal([]byte(promConfig(engines)), &cfgs); err != nil {
		return contender{}, fmt.Errorf("relabel rules: %w", err)
	}
	for _, c := range cfgs {
		if err := c.Validate(model.UTF8Validation); err != nil {
			return contender{}, fmt.Errorf("relabel rules: %w", err)
		}
	}
	builder := labels.NewBuilder(labels.EmptyLabels())
	return contender{"Prometheus textparse, relabel", func(page []byte) error {
		p := textparse.NewPromParser(page, labels.NewSymbolTable(), false)
		var l labels.Labels
		for {
			entry, err := p.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if entry == textparse.EntrySeries {
				p.Labels(&l)
				builder.Reset(l)
				promrelabel1.ProcessBuilder(builder, cfgs...)
				_ = builder.Labels()
			}
		}
	}}, nil
}

// victoriaParse parses with VictoriaMetrics's parser; nothing is written.
func victoriaParse() contender {
	var rows vmparser.Rows
	return contender{"VictoriaMetrics parser", func(page []byte) error {
		var err error
		rows.UnmarshalWithErrLogger(string(page), func(s string) { err = errors.New(s) })
		return err
	}}
}

// victoriaRelabel parses and relabels with VictoriaMetrics; nothing is written.
func victoriaRelabel(engines int) (contender, error) {
	cfgs, err := promrelabel.ParseRelabelConfigsData([]byte(promConfig(engines)))
	if err != nil {
		return contender{}, fmt.Errorf("relabel rules: %w", err)
	}
	var rows vmparser.Rows
	var l []prompb.Label
	return contender{"VictoriaMetrics parser, relabel", func(page []byte) error {
		var err error
		rows.UnmarshalWithErrLogger(string(page), func(s string) { err = errors.New(s) })
		for i := range rows.Rows {
			r := &rows.Rows[i]
			l = append(l[:0], prompb.Label{Name: "__name__", Value: r.Metric})
			for _, t := range r.Tags {
				l = append(l, prompb.Label{Name: t.Key, Value: t.Value})
			}
			l = cfgs.Apply(l, 0)
		}
		return err
	}}, nil
}

// floors are what any proxy must do at least.
func floors() []contender {
	var dst []byte
	return []contender{
		{"newline scan", func(page []byte) error {
			for len(page) > 0 {
				i := bytes.IndexByte(page, '\n')
				page = page[i+1:]
			}
			return nil
		}},
		{"memcpy", func(page []byte) error {
			dst = append(dst[:0], page...)
			return nil
		}},
	}
}
