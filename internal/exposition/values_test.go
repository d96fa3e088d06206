package exposition

import (
	"slices"
	"testing"
)

func TestValues(t *testing.T) {
	var b Builder
	b.Reset(nil, 0, 0)
	running := b.Family(Family{Key: "vllm:num_requests_running", Type: Gauge})
	other := b.Family(Family{Key: "vllm:x", Type: Gauge})
	add := func(family int, name string, s Sample, labels ...Label) {
		s.Name = []byte(name)
		b.Line(family, s.Name, labels, &s, Text)
	}
	stage := func(value string) Label {
		return Label{Name: []byte("stage"), Value: AppendLabelValue(nil, value)}
	}
	add(running, "vllm:num_requests_running", Sample{Value: []byte("3")}, stage("0"))
	add(other, "vllm:x", Sample{Value: []byte("9")})
	add(running, "vllm:num_requests_running", Sample{Value: []byte("NaN"), Timestamp: []byte("17")}, stage(`a"}\,stage="b`+"\n"))
	add(running, "vllm:num_requests_running", Sample{Value: []byte("1e3")})
	p := b.Finish()
	defer p.Release()

	var got []string
	p.Values("vllm:num_requests_running", func(series, value []byte) {
		stage, ok := LabelValue(series, "stage")
		if !ok {
			stage = "none"
		}
		if _, ok := LabelValue(series, "replica"); ok {
			t.Errorf("%s has a replica", series)
		}
		got = append(got, stage+" "+string(value))
	})
	if want := []string{"0 3", `a"}\,stage="b` + "\n NaN", "none 1e3"}; !slices.Equal(got, want) {
		t.Errorf("values %q, want %q", got, want)
	}
	p.Values("vllm:num_requests", func(series, _ []byte) { t.Errorf("%s is of another family", series) })
}
