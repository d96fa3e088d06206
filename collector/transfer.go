package collector

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

// Edge is a way from a replica of one stage to a replica of another. A replica
// is empty while it is not resolved.
type Edge struct {
	Pipeline    string // empty for the unnamed pipeline
	Model       string
	FromStage   string
	FromReplica string
	ToStage     string
	ToReplica   string
}

func (e Edge) check() error {
	if err := checkLabel("pipeline", e.Pipeline, MaxLabelLength); err != nil {
		return err
	}
	if err := requireLabel("model_name", e.Model); err != nil {
		return err
	}
	if err := requireLabel("from_stage", e.FromStage); err != nil {
		return err
	}
	if err := requireLabel("to_stage", e.ToStage); err != nil {
		return err
	}
	if err := checkLabel("from_replica", e.FromReplica, MaxLabelLength); err != nil {
		return err
	}
	return checkLabel("to_replica", e.ToReplica, MaxLabelLength)
}

func (e Edge) labels() prometheus.Labels {
	return labels(e.Pipeline, "model_name", e.Model, "from_stage", e.FromStage, "from_replica", e.FromReplica,
		"to_stage", e.ToStage, "to_replica", e.ToReplica)
}

// TransferCollector holds the four families of transfers between stages, one
// observation per physical hop (vLLM-Omni's metrics design, "Cross-stage
// transfer"). It is safe for concurrent use.
type TransferCollector struct {
	metricSet
	families transferFamilies
	series   map[Edge]*transferSeries
}

type transferFamilies struct{ size, tx, rx, inFlight omniFamily }

// transferSeries are the children of one edge.
type transferSeries struct{ size, tx, rx, inFlight prometheus.Histogram }

// NewTransferCollector returns a collector without series. The error is of a
// prefix that cannot begin a metric name.
func NewTransferCollector(o OmniOptions) (*TransferCollector, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &TransferCollector{
		metricSet: metricSet{prefix: o.Prefix, budget: o.Budget},
		series:    make(map[Edge]*transferSeries),
		families: transferFamilies{
			size:     omniFamily{name: "transfer_size_bytes", help: "Bytes of one transfer between two stages.", buckets: TransferSizeBuckets()},
			tx:       omniFamily{name: "transfer_tx_s", help: "Seconds the sender took to serialize a transfer and hand it over.", buckets: SecondsFastBuckets()},
			rx:       omniFamily{name: "transfer_rx_s", help: "Seconds the receiver took to take in a transfer and deserialize it.", buckets: SecondsFastBuckets()},
			inFlight: omniFamily{name: "transfer_in_flight_s", help: "Seconds from the sender being done with a transfer to the receiver beginning it.", buckets: SecondsFastBuckets()},
		},
	}, nil
}

// TransferSent records the sender's side of one hop: its payload in bytes and
// the seconds it took to serialize and submit. Errors: ErrReplicaUnknown,
// ErrSeriesLimit, *FieldError.
func (c *TransferCollector) TransferSent(e Edge, sizeBytes, txSeconds float64) error {
	if err := e.check(); err != nil {
		return err
	}
	if err := checkRange("size_bytes", sizeBytes, 0, MaxTransferBytes); err != nil {
		return err
	}
	if err := checkSeconds("tx_ms (in seconds)", txSeconds); err != nil {
		return err
	}
	if e.FromReplica == "" || e.ToReplica == "" {
		return ErrReplicaUnknown
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.find(e)
	if err := c.budget.take(missing(s.size, s.tx)); err != nil {
		return err
	}
	c.series[e] = s
	if s.size == nil {
		s.size = c.histogram(c.families.size, e.labels())
		s.tx = c.histogram(c.families.tx, e.labels())
	}
	s.size.Observe(sizeBytes)
	s.tx.Observe(txSeconds)
	return nil
}

// TransferReceived records the receiver's side of one hop: the seconds it took
// to receive and deserialize, and those in flight before, which span two hosts'
// clocks: a little below 0 is taken as 0, and NaN is unknown. Errors:
// ErrReplicaUnknown, ErrSeriesLimit, *FieldError.
func (c *TransferCollector) TransferReceived(e Edge, rxSeconds, inFlightSeconds float64) error {
	if err := e.check(); err != nil {
		return err
	}
	if err := checkSeconds("rx_ms (in seconds)", rxSeconds); err != nil {
		return err
	}
	timed := !math.IsNaN(inFlightSeconds)
	if timed {
		var err error
		if inFlightSeconds, err = clampSkew("in_flight_ms (in seconds)", inFlightSeconds); err != nil {
			return err
		}
	}
	if e.FromReplica == "" || e.ToReplica == "" {
		return ErrReplicaUnknown
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.find(e)
	need := missing(s.rx)
	if timed {
		need += missing(s.inFlight)
	}
	if err := c.budget.take(need); err != nil {
		return err
	}
	c.series[e] = s
	if s.rx == nil {
		s.rx = c.histogram(c.families.rx, e.labels())
	}
	s.rx.Observe(rxSeconds)
	if timed {
		if s.inFlight == nil {
			s.inFlight = c.histogram(c.families.inFlight, e.labels())
		}
		s.inFlight.Observe(inFlightSeconds)
	}
	return nil
}

func (c *TransferCollector) find(e Edge) *transferSeries {
	if s := c.series[e]; s != nil {
		return s
	}
	return &transferSeries{}
}
