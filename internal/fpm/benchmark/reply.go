package benchmark

import (
	"slices"
	"strings"

	"github.com/omni-exporter/omni_exporter/internal/fpm/benchmark/doc"
)

// Reply is one worker's answer to the probe, or whatever came instead, with what is wrong with it.
type Reply struct {
	Response any
	Issues   []string // the producer's own words, so that they compare with a recorded list
}

// Issues of a reply (Worker Probe Coverage, responses and issues). Those of fields name the field.
const (
	issueNotObject       = "response is not an object"
	issueMissing         = "missing or invalid "
	issueInvalid         = "invalid "
	issueNotJSON         = "non-JSON response: "
	issueDuplicateWorker = "duplicate (dp_rank, worker_rank)"
	issueTopology        = "worker ranks disagree with TP/PCP/PP topology"
	issueDuplicateSlot   = "duplicate (dp_rank, tp_rank, pcp_rank, pp_rank)"
)

// worker is the place of a worker: its data-parallel rank and its place in the model-parallel groups of that rank.
type worker struct{ dp, tp, pcp, pp int64 }

// slot is the worker's place by its worker rank; ok is false when the reply's own ranks say something else. Ranks count
// tensor parallelism fastest, then prefill context, then pipeline.
func (s ProbeScope) slot(reply doc.Node) (worker, bool) {
	dp, _ := reply.Key("dp_rank").Int()
	wr, _ := reply.Key("worker_rank").Int()
	w := worker{dp: dp, tp: wr % s.TP, pcp: (wr / s.TP) % s.PCP, pp: (wr / (s.TP * s.PCP)) % s.PP}
	is := func(key string, want int64) bool {
		v, ok := reply.Key(key).Int()
		return ok && v == want
	}
	return w, is("tp_rank", w.tp) && is("pcp_rank", w.pcp) && is("pp_rank", w.pp)
}

// Replies judges the result of the probe's RPC. A result that is no list is one malformed reply.
func Replies(result any) []Reply {
	list, ok := result.([]any)
	if !ok {
		list = []any{result}
	}
	replies := make([]Reply, len(list))
	for i, v := range list {
		replies[i] = Reply{Response: v, Issues: fieldIssues(doc.Root(v))}
	}
	return markDuplicates(replies)
}

// recordedReplies reads the replies that a worker_probe block keeps and judges them again. What was not JSON is kept there as
// a type and a text; its recorded issues are all there is.
func recordedReplies(responses doc.Node) []Reply {
	entries := responses.Items()
	result := make([]any, len(entries))
	for i, entry := range entries {
		result[i] = entry.Key("response").Value()
	}
	replies := Replies(result)
	for i, entry := range entries {
		at := entry.Key("response")
		recorded := recordedTexts(entry.Key("issues"))
		o, isObject := at.Object()
		notJSON := slices.ContainsFunc(recorded, func(s string) bool { return strings.HasPrefix(s, issueNotJSON) })
		if notJSON && isObject && o.Len() == 2 && at.Key("unserializable_type").Present() && at.Key("repr").Present() {
			replies[i].Issues = recorded
		}
	}
	return replies
}

func recordedTexts(n doc.Node) []string {
	out := []string{}
	for _, v := range n.Items() {
		s, _ := v.Text()
		out = append(out, s)
	}
	return out
}

// fieldIssues judges the fields of a reply, in the producer's order.
func fieldIssues(r doc.Node) []string {
	if _, ok := r.Object(); !ok {
		return []string{issueNotObject}
	}
	issues := []string{}
	for _, key := range []string{"dp_rank", "worker_rank", "tp_rank"} {
		if v, ok := r.Key(key).Int(); !ok || v < 0 {
			issues = append(issues, issueMissing+key)
		}
	}
	for _, key := range []string{"pp_rank", "pcp_rank"} {
		if v, ok := r.Key(key).Int(); !r.Key(key).IsNone() && (!ok || v < 0) {
			issues = append(issues, issueInvalid+key)
		}
	}
	backends, ok := r.Key("attention_backends").Object()
	if ok {
		for _, name := range backends.All() {
			s, isText := name.(string)
			ok = ok && isText && s != ""
		}
	}
	if !ok {
		issues = append(issues, issueInvalid+"attention_backends")
	}
	for _, key := range []string{"mla_prefill_backend", "cudagraph_mode_resolved"} {
		if _, isText := r.Key(key).Text(); !r.Key(key).IsNone() && !isText {
			issues = append(issues, issueInvalid+key)
		}
	}
	sizes, ok := ints(r.Key("cudagraph_capture_sizes_resolved"))
	if !ok || slices.ContainsFunc(sizes, func(s int64) bool { return s < 1 }) {
		issues = append(issues, issueInvalid+"cudagraph_capture_sizes_resolved")
	}
	return issues
}

// markDuplicates marks every copy of a worker that answered twice, whatever scope is looked at later.
func markDuplicates(replies []Reply) []Reply {
	byWorker := map[[2]int64][]int{}
	for i, r := range replies {
		if len(r.Issues) > 0 {
			continue
		}
		dp, _ := doc.Root(r.Response).Key("dp_rank").Int()
		wr, _ := doc.Root(r.Response).Key("worker_rank").Int()
		byWorker[[2]int64{dp, wr}] = append(byWorker[[2]int64{dp, wr}], i)
	}
	for _, same := range byWorker {
		for _, i := range same {
			if len(same) > 1 {
				replies[i].Issues = append(replies[i].Issues, issueDuplicateWorker)
			}
		}
	}
	return replies
}
