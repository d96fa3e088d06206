//go:build integration

package integration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// What a scraper accepts when it wants one format.
const (
	acceptText        = "text/plain;version=0.0.4"
	acceptOpenMetrics = "application/openmetrics-text;version=1.0.0"
)

// requestTimeout bounds each request of the tests; every answer they await comes within the exporter's own scrape timeout.
const requestTimeout = 30 * time.Second

// fetch returns the body of a 200 answer.
func fetch(ctx context.Context, url, accept string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("%s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s: %.200q", url, response.Status, body)
	}
	return string(body), nil
}

// get is fetch for a test that cannot go on without the answer.
func get(t *testing.T, url, accept string) string {
	t.Helper()
	body, err := fetch(t.Context(), url, accept)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// families parses a page in the text format.
func families(t *testing.T, page string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	parsed, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// value returns the one sample of a gauge or counter family that has these labels, among others.
func value(t *testing.T, all map[string]*dto.MetricFamily, name string, labels map[string]string) float64 {
	t.Helper()
	var found []float64
	for _, metric := range all[name].GetMetric() {
		if !hasLabels(metric, labels) {
			continue
		}
		switch {
		case metric.Gauge != nil:
			found = append(found, metric.GetGauge().GetValue())
		case metric.Counter != nil:
			found = append(found, metric.GetCounter().GetValue())
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s%v: %d samples, want one", name, labels, len(found))
	}
	return found[0]
}

func hasLabels(metric *dto.Metric, labels map[string]string) bool {
	matched := 0
	for _, pair := range metric.GetLabel() {
		if want, ok := labels[pair.GetName()]; ok && want == pair.GetValue() {
			matched++
		}
	}
	return matched == len(labels)
}
