package collector

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/omni-exporter/omni_exporter/internal/fpm"
	"github.com/omni-exporter/omni_exporter/internal/fpm/stream"
)

func fpmActive() fpm.Record {
	return fpm.Record{
		Version: 1, WorkerID: "4192", CounterID: 42, WallTime: 0.025,
		Scheduled: fpm.Scheduled{
			NumPrefillRequests: 2, SumPrefillTokens: 256, VarPrefillLength: 100, SumPrefillKVTokens: 64,
			NumDecodeRequests: 3, SumDecodeKVTokens: 1024, VarDecodeKVTokens: 6.25,
		},
		Queued: fpm.Queued{
			NumPrefillRequests: 1, SumPrefillTokens: 128, VarPrefillLength: 4,
			NumDecodeRequests: 5, SumDecodeKVTokens: 2048, VarDecodeKVTokens: 9,
		},
	}
}

func fpmHeartbeat() fpm.Record { return fpm.Record{Version: 1, WorkerID: "4192"} }

var fpmTestOrigin = fpm.Origin{Name: "tcp://10.0.0.5:20380", Rank: fpm.UnknownRank}

// fpmFeed gives records that arrive now.
func fpmFeed(f *FPM, origin fpm.Origin, records ...fpm.Record) {
	for _, r := range records {
		f.Deliver(&fpm.Delivery{Origin: &origin, Received: time.Now(), Record: r})
	}
}

func fpmReject(f *FPM, origin fpm.Origin, reasons ...fpm.Reason) {
	for _, reason := range reasons {
		f.Deliver(&fpm.Delivery{Origin: &origin, Received: time.Now(), Rejected: &fpm.RejectError{Reason: reason}})
	}
}

// fpmPage gathers collectors into "name{labels}" -> value; histograms give _count, _sum and _bucket series.
func fpmPage(t testing.TB, cs ...prometheus.Collector) map[string]float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(cs...)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	page := make(map[string]float64)
	for _, family := range families {
		for _, m := range family.Metric {
			labels := func(extra ...string) string {
				var parts []string
				for _, l := range m.Label {
					parts = append(parts, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
				}
				return "{" + strings.Join(append(parts, extra...), ",") + "}"
			}
			switch family.GetType() {
			case dto.MetricType_HISTOGRAM:
				page[family.GetName()+"_count"+labels()] = float64(m.Histogram.GetSampleCount())
				page[family.GetName()+"_sum"+labels()] = m.Histogram.GetSampleSum()
				for _, b := range m.Histogram.Bucket {
					page[family.GetName()+"_bucket"+labels(fmt.Sprintf("le=\"%g\"", b.GetUpperBound()))] = float64(b.GetCumulativeCount())
				}
			case dto.MetricType_COUNTER:
				page[family.GetName()+labels()] = m.Counter.GetValue()
			default:
				page[family.GetName()+labels()] = m.Gauge.GetValue()
			}
		}
	}
	return page
}

// fpmExpect compares some series, named without the labels that all share; a negative value means absent.
func fpmExpect(t *testing.T, page map[string]float64, shared string, want map[string]float64) {
	t.Helper()
	for name, value := range want {
		family, extra, _ := strings.Cut(name, "|")
		pairs := strings.Split(shared, ",")
		if extra != "" {
			pairs = append(pairs, strings.Split(extra, ",")...)
		}
		slices.SortFunc(pairs, func(a, b string) int {
			if strings.HasPrefix(a, "le=") != strings.HasPrefix(b, "le=") {
				return map[bool]int{true: 1, false: -1}[strings.HasPrefix(a, "le=")]
			}
			return strings.Compare(a, b)
		})
		key := family + "{" + strings.Join(pairs, ",") + "}"
		got, ok := page[key]
		if (value < 0) == ok || ok && got != value {
			t.Errorf("%s = %v (present: %v), want %v", key, got, ok, value)
		}
	}
	if t.Failed() {
		t.Log(strings.Join(slices.Sorted(maps.Keys(page)), "\n"))
	}
}

const fpmRank0 = `dp_rank="0",worker_id="4192"`

func TestFPMEveryFamily(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFPM(FPMOptions{})
		prefill, decode, untimed, queued := fpmActive(), fpmActive(), fpmActive(), fpmHeartbeat()
		prefill.Scheduled.NumDecodeRequests, prefill.Scheduled.SumDecodeKVTokens = 0, 0
		decode.Scheduled.NumPrefillRequests, decode.Scheduled.SumPrefillTokens, decode.Scheduled.SumPrefillKVTokens = 0, 0, 0
		decode.WallTime = 0.5
		untimed.WallTime = 0
		queued.Queued.NumPrefillRequests = 9
		fpmFeed(f, fpmTestOrigin, prefill, decode, untimed, fpmHeartbeat(), queued, fpmActive())
		last := fpmActive()
		f.Deliver(&fpm.Delivery{Origin: &fpmTestOrigin, Received: time.Now(), Record: last, Lost: 7})
		f.Deliver(&fpm.Delivery{Origin: &fpmTestOrigin, Received: time.Now(), Record: last, Restarted: true})
		fpmReject(f, fpmTestOrigin, fpm.ReasonMalformed, fpm.ReasonMalformed, fpm.ReasonVersion)

		fpmExpect(t, fpmPage(t, f), fpmRank0, map[string]float64{
			"dynamo_fpm_scheduled_prefill_requests":                                   2,
			"dynamo_fpm_scheduled_prefill_tokens":                                     256,
			"dynamo_fpm_scheduled_prefill_kv_tokens":                                  64,
			"dynamo_fpm_scheduled_decode_requests":                                    3,
			"dynamo_fpm_scheduled_decode_kv_tokens":                                   1024,
			"dynamo_fpm_scheduled_prefill_length_stddev":                              10,
			"dynamo_fpm_scheduled_decode_kv_tokens_stddev":                            2.5,
			"dynamo_fpm_queued_prefill_requests":                                      1,
			"dynamo_fpm_queued_prefill_tokens":                                        128,
			"dynamo_fpm_queued_prefill_length_stddev":                                 2,
			"dynamo_fpm_queued_decode_requests":                                       5,
			"dynamo_fpm_queued_decode_kv_tokens":                                      2048,
			"dynamo_fpm_queued_decode_kv_tokens_stddev":                               3,
			`dynamo_fpm_last_forward_pass_seconds|timing_scope="scheduler_wall_time"`: 0.025,
			"dynamo_fpm_last_record_timestamp_seconds":                                float64(time.Now().Unix()),
			"dynamo_fpm_up": 1,
			`dynamo_fpm_worker_info|worker_id_hex="1060"`:                                                                1,
			`dynamo_fpm_forward_passes_total|kind="prefill"`:                                                             1,
			`dynamo_fpm_forward_passes_total|kind="decode"`:                                                              1,
			`dynamo_fpm_forward_passes_total|kind="mixed"`:                                                               4,
			"dynamo_fpm_heartbeats_total":                                                                                1,
			"dynamo_fpm_records_total":                                                                                   8,
			"dynamo_fpm_records_lost_total":                                                                              7,
			"dynamo_fpm_sequence_gaps_total":                                                                             1,
			"dynamo_fpm_publisher_restarts_total":                                                                        1,
			`dynamo_fpm_records_rejected_total|reason="malformed"`:                                                       2,
			`dynamo_fpm_records_rejected_total|reason="unsupported_version"`:                                             1,
			`dynamo_fpm_records_rejected_total|reason="invalid_value"`:                                                   0,
			`dynamo_fpm_records_rejected_total|reason="limit"`:                                                           0,
			`dynamo_fpm_records_rejected_total|reason="framing"`:                                                         0,
			`dynamo_fpm_records_rejected_total|reason="duplicate"`:                                                       0,
			`dynamo_fpm_records_rejected_total|reason="identity_limit"`:                                                  0,
			"dynamo_fpm_prefill_tokens_total":                                                                            5 * 256,
			"dynamo_fpm_prefill_kv_tokens_total":                                                                         5 * 64,
			"dynamo_fpm_decode_requests_total":                                                                           5 * 3,
			"dynamo_fpm_decode_kv_tokens_total":                                                                          5 * 1024,
			"dynamo_fpm_decode_batch_size_count":                                                                         5,
			"dynamo_fpm_decode_batch_size_sum":                                                                           15,
			`dynamo_fpm_decode_batch_size_bucket|le="2"`:                                                                 0,
			`dynamo_fpm_decode_batch_size_bucket|le="4"`:                                                                 5,
			"dynamo_fpm_prefill_batch_tokens_count":                                                                      5,
			`dynamo_fpm_prefill_batch_tokens_bucket|le="128"`:                                                            0,
			`dynamo_fpm_prefill_batch_tokens_bucket|le="256"`:                                                            5,
			`dynamo_fpm_forward_pass_seconds_total|kind="decode",timing_scope="scheduler_wall_time"`:                     0.5,
			`dynamo_fpm_forward_pass_seconds_total|kind="prefill",timing_scope="scheduler_wall_time"`:                    0.025,
			`dynamo_fpm_forward_pass_duration_seconds_count|kind="mixed",timing_scope="scheduler_wall_time"`:             3,
			`dynamo_fpm_forward_pass_duration_seconds_count|kind="decode",timing_scope="scheduler_wall_time"`:            1,
			`dynamo_fpm_forward_pass_duration_seconds_bucket|kind="decode",timing_scope="scheduler_wall_time",le="0.25"`: 0,
			`dynamo_fpm_forward_pass_duration_seconds_bucket|kind="decode",timing_scope="scheduler_wall_time",le="0.5"`:  1,
		})
		if problems, err := testutil.CollectAndLint(f); err != nil || len(problems) > 0 {
			t.Errorf("lint: %v %v", problems, err)
		}
	})
}

// TestFPMFirstRecordHasZeros: increase() sees the first event only of a counter that was there before it.
func TestFPMFirstRecordHasZeros(t *testing.T) {
	f := NewFPM(FPMOptions{})
	fpmFeed(f, fpmTestOrigin, fpmHeartbeat())
	fpmExpect(t, fpmPage(t, f), fpmRank0, map[string]float64{
		`dynamo_fpm_forward_passes_total|kind="prefill"`:                                                 0,
		`dynamo_fpm_forward_passes_total|kind="mixed"`:                                                   0,
		`dynamo_fpm_forward_pass_seconds_total|kind="mixed",timing_scope="scheduler_wall_time"`:          0,
		`dynamo_fpm_forward_pass_duration_seconds_count|kind="mixed",timing_scope="scheduler_wall_time"`: 0,
		"dynamo_fpm_records_lost_total":                                                                  0,
		"dynamo_fpm_publisher_restarts_total":                                                            0,
		"dynamo_fpm_scheduled_decode_requests":                                                           0,
		`dynamo_fpm_last_forward_pass_seconds|timing_scope="scheduler_wall_time"`:                        -1,
		"dynamo_fpm_heartbeats_total":                                                                    1,
	})
}

func TestFPMHeartbeatsAndSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFPM(FPMOptions{})
		expect := func(when string, batch, up, records float64) {
			t.Helper()
			fpmExpect(t, fpmPage(t, f), fpmRank0, map[string]float64{
				"dynamo_fpm_scheduled_decode_requests": batch, "dynamo_fpm_queued_decode_requests": batch * 5 / 3,
				"dynamo_fpm_up": up, "dynamo_fpm_records_total": records,
			})
			if t.Failed() {
				t.Fatal(when)
			}
		}
		fpmFeed(f, fpmTestOrigin, fpmActive(), fpmHeartbeat())
		expect("one heartbeat, as during a long pass", 3, 1, 2)
		fpmFeed(f, fpmTestOrigin, fpmActive(), fpmHeartbeat())
		expect("one again after an active record", 3, 1, 4)
		fpmFeed(f, fpmTestOrigin, fpmHeartbeat())
		expect("two in a row", 0, 1, 5)
		fpmFeed(f, fpmTestOrigin, fpmActive())
		expect("active again", 3, 1, 6)
		time.Sleep(DefaultFPMStaleAfter)
		expect("not yet stale", 3, 1, 6)
		time.Sleep(time.Millisecond)
		expect("stale", -1, 0, 6)
		fpmReject(f, fpmTestOrigin, fpm.ReasonMalformed)
		expect("a refused message is no sign of life", -1, 0, 6)
		fpmFeed(f, fpmTestOrigin, fpmHeartbeat())
		expect("back", 3, 1, 7)
		time.Sleep(DefaultFPMForgetAfter)
		expect("counters stay", -1, 0, 7)
		time.Sleep(time.Millisecond)
		if page := fpmPage(t, f); len(page) != 0 {
			t.Errorf("not forgotten: %v", page)
		}
		fpmFeed(f, fpmTestOrigin, fpmActive())
		expect("begins anew", 3, 1, 1)
	})
}

func TestFPMIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFPM(FPMOptions{})
		placed := fpmTestOrigin
		placed.Labels = fpm.Labels{Namespace: "default", Component: "backend", Stage: "0", Replica: "1", Pipeline: "qwen\xff"}
		named, unnamed, big := fpmActive(), fpmActive(), fpmActive()
		named.WorkerID, named.DPRank = "worker-a", 3
		unnamed.WorkerID = ""
		big.WorkerID = "7587888736726549301"
		fpmFeed(f, placed, named, big)
		fpmFeed(f, fpm.Origin{Name: "ipc:///tmp/x.0"}, unnamed)
		page := fpmPage(t, f)
		all := `dynamo_component="backend",dynamo_namespace="default",pipeline="qwen` + "\uFFFD" + `",replica="1",stage="0"`
		fpmExpect(t, page, `dp_rank="3",worker_id="worker-a",`+all, map[string]float64{"dynamo_fpm_records_total": 1, "dynamo_fpm_up": 1})
		fpmExpect(t, page, `dp_rank="0",worker_id="7587888736726549301",`+all, map[string]float64{
			"dynamo_fpm_records_total": 1, `dynamo_fpm_worker_info|worker_id_hex="694d989a8bc60335"`: 1,
		})
		fpmExpect(t, page, `dp_rank="0",worker_id="ipc:///tmp/x.0"`, map[string]float64{"dynamo_fpm_records_total": 1})
		infos := 0
		for name := range page {
			if strings.HasPrefix(name, "dynamo_fpm_worker_info") {
				infos++
			}
		}
		if infos != 1 {
			t.Errorf("%d worker infos, want one: the other ids are no numbers", infos)
		}
	})
}

// TestFPMTimingScopes: the times of schedulers and of CUDA events never meet in one series.
func TestFPMTimingScopes(t *testing.T) {
	f := NewFPM(FPMOptions{})
	native := fpmActive()
	native.TimingScope, native.WallTime = "model_step_cuda", 0.125
	fpmFeed(f, fpmTestOrigin, fpmActive(), native)
	for i := range 3 * maxTimingScopes {
		native.TimingScope = fmt.Sprint("scope", i)
		fpmFeed(f, fpmTestOrigin, native)
	}
	fpmExpect(t, fpmPage(t, f), fpmRank0, map[string]float64{
		`dynamo_fpm_forward_pass_seconds_total|kind="mixed",timing_scope="scheduler_wall_time"`:      0.025,
		`dynamo_fpm_forward_pass_seconds_total|kind="mixed",timing_scope="model_step_cuda"`:          0.125,
		`dynamo_fpm_forward_pass_duration_seconds_count|kind="mixed",timing_scope="model_step_cuda"`: 1,
		`dynamo_fpm_last_forward_pass_seconds|timing_scope="scheduler_wall_time"`:                    -1,
		`dynamo_fpm_records_rejected_total|reason="identity_limit"`:                                  3*maxTimingScopes - (maxTimingScopes - 2),
		"dynamo_fpm_records_total": maxTimingScopes,
	})
}

// TestFPMRefusals: what is refused counts for the worker that spoke last, before any for the endpoint itself.
func TestFPMRefusals(t *testing.T) {
	f := NewFPM(FPMOptions{})
	fpmReject(f, fpmTestOrigin, fpm.ReasonVersion)
	page := fpmPage(t, f)
	fpmExpect(t, page, `dp_rank="0",worker_id="tcp://10.0.0.5:20380"`, map[string]float64{
		`dynamo_fpm_records_rejected_total|reason="unsupported_version"`: 1,
		"dynamo_fpm_up": -1, "dynamo_fpm_records_total": -1,
	})
	fpmFeed(f, fpmTestOrigin, fpmActive())
	fpmReject(f, fpmTestOrigin, fpm.ReasonFraming)
	fpmExpect(t, fpmPage(t, f), fpmRank0, map[string]float64{
		`dynamo_fpm_records_rejected_total|reason="framing"`:             1,
		`dynamo_fpm_records_rejected_total|reason="unsupported_version"`: 0,
	})
}

// TestFPMNewWorker: a restart with a new worker id is told by the former worker's counter, which Prometheus knows.
func TestFPMNewWorker(t *testing.T) {
	f := NewFPM(FPMOptions{})
	fpmFeed(f, fpmTestOrigin, fpmActive())
	next := fpmActive()
	next.WorkerID = "4193"
	f.Deliver(&fpm.Delivery{Origin: &fpmTestOrigin, Received: time.Now(), Record: next, Restarted: true})
	page := fpmPage(t, f)
	fpmExpect(t, page, fpmRank0, map[string]float64{"dynamo_fpm_publisher_restarts_total": 1, "dynamo_fpm_records_total": 1})
	fpmExpect(t, page, `dp_rank="0",worker_id="4193"`, map[string]float64{"dynamo_fpm_publisher_restarts_total": 0, "dynamo_fpm_records_total": 1})
}

func TestFPMConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		f := NewFPM(FPMOptions{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		a, b := fpmTestOrigin, fpmTestOrigin
		a.Rank, b.Name, b.Rank = 0, "tcp://10.0.0.5:20381", 1
		for range 5 {
			fpmFeed(f, a, fpmActive())
			fpmFeed(f, b, fpmActive())
		}
		page := fpmPage(t, f)
		fpmExpect(t, page, fpmRank0, map[string]float64{"dynamo_fpm_records_total": 10})
		fpmExpect(t, page, `endpoint="tcp://10.0.0.5:20380"`, map[string]float64{
			"omni_exporter_fpm_identity_conflicts_total": 4, "omni_exporter_fpm_rank_mismatches_total": 0,
		})
		fpmExpect(t, page, `endpoint="tcp://10.0.0.5:20381"`, map[string]float64{
			"omni_exporter_fpm_identity_conflicts_total": 5, "omni_exporter_fpm_rank_mismatches_total": 5,
		})
		if n := strings.Count(logged.String(), "Two endpoints publish the same"); n != 2 {
			t.Errorf("%d warnings, want one per endpoint:\n%s", n, logged.String())
		}
		time.Sleep(DefaultFPMStaleAfter) // the worker moves
		fpmFeed(f, a, fpmActive())
		fpmExpect(t, fpmPage(t, f), `endpoint="tcp://10.0.0.5:20380"`, map[string]float64{"omni_exporter_fpm_identity_conflicts_total": 4})
	})
}

// TestFPMIdentityLimits: an endpoint that invents workers uses up its own share only, and gets room as they go.
func TestFPMIdentityLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFPM(FPMOptions{MaxIdentities: maxIdentitiesPerOrigin + 2})
		series := func() (identities int, refused float64) {
			for name, value := range fpmPage(t, f) {
				if strings.HasPrefix(name, "dynamo_fpm_records_total") {
					identities++
				}
				if strings.HasPrefix(name, "dynamo_fpm_records_rejected_total") && strings.Contains(name, "identity_limit") {
					refused += value
				}
			}
			return identities, refused
		}
		flood := func(name string) {
			for i := range 1000 {
				r := fpmActive()
				r.WorkerID = fmt.Sprint(name, i)
				fpmFeed(f, fpm.Origin{Name: name}, r)
			}
		}
		d := fpm.Delivery{Origin: &fpm.Origin{Name: "a"}, Received: time.Now(), Record: fpmActive(), Lost: 1, Restarted: true}
		flood("a")
		before := d
		if f.Deliver(&d); d != before {
			t.Errorf("the delivery was changed to %+v", d)
		}
		if n, refused := series(); n != maxIdentitiesPerOrigin || refused != 1001-maxIdentitiesPerOrigin {
			t.Errorf("%d identities, %v refused", n, refused)
		}
		flood("b")
		if n, refused := series(); n != maxIdentitiesPerOrigin+2 || refused != 2001-maxIdentitiesPerOrigin-2 {
			t.Errorf("%d identities, %v refused", n, refused)
		}
		flood("c") // without any identity of its own
		if n, refused := series(); n != maxIdentitiesPerOrigin+2 || refused != 3001-maxIdentitiesPerOrigin-2 {
			t.Errorf("%d identities, %v refused", n, refused)
		}
		time.Sleep(DefaultFPMForgetAfter + time.Millisecond)
		fpmFeed(f, fpmTestOrigin, fpmActive())
		if n, refused := series(); n != 1 || refused != 0 {
			t.Errorf("%d identities, %v refused after all were forgotten", n, refused)
		}
	})
}

// TestFPMConcurrent feeds from many goroutines while pages are gathered: nothing is lost and no page is inconsistent.
func TestFPMConcurrent(t *testing.T) {
	const feeders, each = 8, 2000
	f := NewFPM(FPMOptions{})
	var wg sync.WaitGroup
	for i := range feeders {
		wg.Go(func() {
			r := fpmActive()
			for n := range each {
				r.DPRank = uint64(i)
				if n%100 == 0 {
					r.WorkerID = fmt.Sprint(n / 1000)
				}
				fpmFeed(f, fpm.Origin{Name: fmt.Sprint(i)}, r)
				if n%100 == 0 {
					fpmReject(f, fpm.Origin{Name: fmt.Sprint(i)}, fpm.ReasonLimit)
				}
			}
		})
	}
	for range 20 {
		fpmPage(t, f)
	}
	wg.Wait()
	sums := make(map[string]float64)
	for name, value := range fpmPage(t, f) {
		family, _, _ := strings.Cut(name, "{")
		sums[family] += value
	}
	want := map[string]float64{
		"dynamo_fpm_records_total": feeders * each, "dynamo_fpm_forward_passes_total": feeders * each,
		"dynamo_fpm_records_rejected_total": feeders * each / 100, "dynamo_fpm_decode_batch_size_count": feeders * each,
		"dynamo_fpm_decode_kv_tokens_total": feeders * each * 1024,
	}
	for family, value := range want {
		if diff := cmp.Diff(value, sums[family]); diff != "" {
			t.Errorf("%s: %s", family, diff)
		}
	}
}

func TestFPMStreams(t *testing.T) {
	c := NewFPMStreams(func() []stream.EndpointState {
		return []stream.EndpointState{
			{Endpoint: stream.Endpoint{Address: "tcp://a:1"}, Phase: stream.PhaseConnected, Reconnects: 2, LastReason: stream.ReasonIdle},
			{Endpoint: stream.Endpoint{Address: "tcp://b:1"}, Phase: stream.PhaseWaiting, LastReason: stream.ReasonSocketType},
			{Endpoint: stream.Endpoint{Address: "tcp://c:1"}, Phase: stream.PhaseConnecting},
		}
	})
	want := map[string]float64{
		`omni_exporter_fpm_connected{endpoint="tcp://a:1"}`: 1, `omni_exporter_fpm_reconnects_total{endpoint="tcp://a:1"}`: 2,
		`omni_exporter_fpm_connected{endpoint="tcp://b:1"}`: 0, `omni_exporter_fpm_reconnects_total{endpoint="tcp://b:1"}`: 0,
		`omni_exporter_fpm_connected{endpoint="tcp://c:1"}`: 0, `omni_exporter_fpm_reconnects_total{endpoint="tcp://c:1"}`: 0,
		`omni_exporter_fpm_last_disconnect_info{endpoint="tcp://a:1",reason="idle"}`:              1,
		`omni_exporter_fpm_last_disconnect_info{endpoint="tcp://b:1",reason="wrong_socket_type"}`: 1,
	}
	if diff := cmp.Diff(want, fpmPage(t, c)); diff != "" {
		t.Error(diff)
	}
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
}

func BenchmarkFPMDeliver(b *testing.B) {
	f := NewFPM(FPMOptions{})
	d := fpm.Delivery{Origin: &fpmTestOrigin, Received: time.Now(), Record: fpmActive()}
	b.ReportAllocs()
	for b.Loop() {
		f.Deliver(&d)
	}
}

// BenchmarkFPMGather is a scrape of 256 ranks. It reports the memory that a rank's series take.
func BenchmarkFPMGather(b *testing.B) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	f := NewFPM(FPMOptions{StaleAfter: time.Hour})
	for rank := range 256 {
		r := fpmActive()
		r.DPRank = uint64(rank)
		fpmFeed(f, fpm.Origin{Name: fmt.Sprint(rank)}, r)
	}
	perRank := float64(heap()-before) / 256
	reg := prometheus.NewRegistry()
	reg.MustRegister(f)
	gather := func(b *testing.B) {
		for b.Loop() {
			if _, err := reg.Gather(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(perRank, "B/rank")
	}
	b.Run("quiet", gather)
	b.Run("fed 25600 records a second", func(b *testing.B) {
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			ticker := time.NewTicker(10 * time.Millisecond)
			defer ticker.Stop()
			for {
				select {
				case <-stop:
					return
				case <-ticker.C:
				}
				for rank := range 256 {
					r := fpmActive()
					r.DPRank = uint64(rank)
					fpmFeed(f, fpm.Origin{Name: fmt.Sprint(rank)}, r)
				}
			}
		}()
		gather(b)
		close(stop)
		<-done
	})
}
