// Streams of forward-pass metrics, and what they say of data-parallel ranks.
local alert = import '../lib/alert.libsonnet';
local promql = import '../lib/promql.libsonnet';

function(c)
  local q = promql(c);
  local a = alert(c);
  local n = q.number;
  local worker = ['dynamo_namespace', 'dynamo_component', 'stage', 'replica', 'worker_id'];
  local rank = worker + ['dp_rank'];
  local where = 'Rank {{ $labels.dp_rank }} of worker {{ $labels.worker_id }}{{ with $labels.stage }} (stage {{ . }}/{{ $labels.replica }}){{ end }} ';
  local lost = q.metric('dynamo_fpm_records_lost_total');
  local records = q.metric('dynamo_fpm_records_total');
  local decode = q.metric('dynamo_fpm_decode_kv_tokens_total');
  [
    a(
      'DynamoFpmStreamStale',
      'max %s (max_over_time(%s[2m])) == 0' % [q.by(rank), q.metric('dynamo_fpm_up')],
      '1m',
      c.warningSeverity,
      'A rank has stopped publishing forward-pass records.',
      where + 'sends nothing, not even the heartbeat of each second. If omni_exporter_fpm_connected is 1 its process lives and does not publish ' +
      '(it hangs, or benchmarks itself); else it is gone.',
    ),
    a(
      'DynamoFpmDisconnected',
      'max %s (max_over_time(%s[2m])) == 0' % [q.by(['endpoint']), q.metric('omni_exporter_fpm_connected')],
      '5m',
      c.warningSeverity,
      'No connection to a publisher of forward-pass records.',
      'The exporter cannot subscribe to {{ $labels.endpoint }}. omni_exporter_fpm_last_disconnect_info says why: most often no engine publishes there, or data_parallel_size is too large.',
    ),
    a(
      'DynamoFpmRecordsLost',
      |||
        sum %(by)s (increase(%(lost)s[10m]))
          / %(on)s
        ((sum %(by)s (increase(%(records)s[10m])) + %(on)s sum %(by)s (increase(%(lost)s[10m]))) > 0)
          > %(ratio)s
      ||| % { by: q.by(rank), on: q.on(rank), lost: lost, records: records, ratio: n(c.fpmLostRatio) },
      '10m',
      c.warningSeverity,
      'Forward-pass records are lost.',
      where + 'published records of which {{ $value | humanizePercentage }} did not arrive, so its counters are low by as much. ' +
      'The publisher drops when its queue is full: look at the network and at the processor time of the exporter.',
    ),
    a(
      'DynamoFpmRecordsRejected',
      'sum %s (increase(%s[10m])) > 0' % [q.by(rank + ['reason']), q.metric('dynamo_fpm_records_rejected_total')],
      '5m',
      c.warningSeverity,
      'Forward-pass messages are not understood.',
      where + 'sent {{ $value | humanize }} messages in ten minutes that were refused with reason {{ $labels.reason }}. ' +
      'Another service may listen on the port, or the engine is of a version that this exporter does not know.',
    ),
    a(
      'DynamoFpmRankMismatch',
      'sum %s (increase(%s[10m])) > 0' % [q.by(['endpoint']), q.metric('omni_exporter_fpm_rank_mismatches_total')],
      '5m',
      c.warningSeverity,
      'A publisher sends the records of another rank.',
      '{{ $labels.endpoint }} sends records of another data-parallel rank than its port stands for. Blocks of ports overlap, or the first port is wrong.',
    ),
    a(
      'DynamoFpmIdentityConflict',
      'sum %s (increase(%s[10m])) > 0' % [q.by(['endpoint']), q.metric('omni_exporter_fpm_identity_conflicts_total')],
      '5m',
      c.warningSeverity,
      'Two publishers claim to be the same rank.',
      '{{ $labels.endpoint }} sends records of a worker and rank that another endpoint publishes as well, so its counters mix the two. ' +
      'An endpoint is listed twice, or two engines have one worker id.',
    ),
    a(
      'DynamoFpmQueueGrowing',
      |||
        max %(by)s (avg_over_time(%(queued)s[5m])) > %(limit)s
          and %(on)s
        max %(by)s (deriv(%(queued)s[5m])) > 0
      ||| % {
        by: q.by(rank),
        on: q.on(rank),
        queued: q.metric('dynamo_fpm_queued_prefill_tokens'),
        limit: n(c.fpmQueuedPrefillTokens),
      },
      '5m',
      c.warningSeverity,
      'Prompts queue up on a rank.',
      where + 'has {{ $value | humanize }} prompt tokens waiting, and they become more. Add prefill workers or shed load.',
    ),
    a(
      'DynamoFpmRankImbalance',
      |||
        (
          max %(by)s (sum %(byRank)s (rate(%(decode)s[10m])))
            - %(on)s
          min %(by)s (sum %(byRank)s (rate(%(decode)s[10m])))
        )
          / %(on)s
        (avg %(by)s (sum %(byRank)s (rate(%(decode)s[10m]))) > %(floor)s)
          > %(ratio)s
      ||| % {
        by: q.by(worker),
        byRank: q.by(rank),
        on: q.on(worker),
        decode: decode,
        floor: n(c.fpmImbalanceMinimumTokens),
        ratio: n(c.fpmImbalanceRatio),
      },
      '15m',
      c.warningSeverity,
      'The data-parallel ranks of a worker do unequal work.',
      'The ranks of worker {{ $labels.worker_id }}{{ with $labels.stage }} (stage {{ . }}/{{ $labels.replica }}){{ end }} differ in decode work by {{ $value | printf "%.1f" }} times the mean. ' +
      'Each pass waits for the slowest rank: look at how requests are spread over ranks.',
    ),
  ]
