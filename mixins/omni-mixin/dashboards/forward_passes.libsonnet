// Dynamo's forward-pass metrics, by worker and data-parallel rank.
local g = import '../lib/grafana.libsonnet';
local panels = import '../lib/panels.libsonnet';

function(c)
  local p = panels(c);
  local v = p.variables;
  local rank = 'pipeline, worker_id, dp_rank';
  local legend = '{{worker_id}}/{{dp_rank}}';
  local fpm(family, matchers='') = p.own('dynamo_fpm_' + family, std.join(', ', std.filter(function(m) m != '', ['worker_id=~"$worker_id"', matchers])));
  local sum(family) = 'sum by (%s) (%s)' % [rank, fpm(family)];
  local rate(family) = 'sum by (%s) (%s)' % [rank, p.rate(fpm(family))];
  local ranks(title, description, unit, expr) = g.timeseries(title, description, unit, [g.target(expr, legend)]);
  local two(title, description, unit, family) = g.timeseries(title, description, unit, [
    g.target(sum(family % 'prefill'), legend + ' prefill'),
    g.target(sum(family % 'decode'), legend + ' decode'),
  ]).needsTraffic();
  local decode = p.rate(fpm('decode_kv_tokens_total'));

  g.dashboard(c, 'Forward passes', 'omni-forward-passes', 'What the schedulers of each rank ran, what waited, and whether their records arrive.', [v.job, v.pipeline, v.worker], [
    g.row('', [
      g.stat('Ranks up', 'Ranks that sent a record lately, heartbeats included. dynamo_fpm_up', 'short', 'sum(%s)' % fpm('up')),
      g.stat('Ranks down', 'Ranks that fell silent. dynamo_fpm_up', 'short', 'sum(1 - %s)' % fpm('up')).thresholds([[null, 'green'], [1, 'red']]),
      g.stat('Forward passes', 'Per second. dynamo_fpm_forward_passes_total', 'ops', 'sum(%s)' % p.rate(fpm('forward_passes_total'))),
      g.stat('Decodes', 'Decode requests run per second: the tokens generated, without speculation. dynamo_fpm_decode_requests_total', 'short', 'sum(%s)' % p.rate(fpm('decode_requests_total'))),
      g.stat('Prefill tokens', 'Prompt tokens computed per second. dynamo_fpm_prefill_tokens_total', 'short', 'sum(%s)' % p.rate(fpm('prefill_tokens_total'))),
      g.stat('Records lost',
             'Share of the records that were numbered and did not arrive. dynamo_fpm_records_lost_total',
             'percentunit',
             'sum(%(l)s) / ((sum(%(l)s) + sum(%(r)s)) > 0)' % { l: p.rate(fpm('records_lost_total')), r: p.rate(fpm('records_total')) })
      .thresholds([[null, 'green'], [c.fpmLostRatio, 'red']]).needsTraffic(),
    ]),
    g.row('Ranks', [
      g.table(
        'Ranks',
        'One row for each rank. The worker narrows this dashboard to it. dynamo_fpm_forward_passes_total, dynamo_fpm_scheduled_*, dynamo_fpm_queued_*, dynamo_fpm_last_record_timestamp_seconds',
        ['pipeline', 'worker_id', 'dp_rank'],
        [
          ['Passes per second', 'short', rate('forward_passes_total')],
          ['Prefill tokens per second', 'short', rate('prefill_tokens_total')],
          ['Decodes per second', 'short', rate('decode_requests_total')],
          ['Scheduled decodes', 'short', sum('scheduled_decode_requests')],
          ['Queued prefill tokens', 'short', sum('queued_prefill_tokens')],
          ['Last record', 's', 'min by (%s) (time() - %s)' % [rank, fpm('last_record_timestamp_seconds')]],
        ],
        { worker_id: p.onward('Only this worker', 'omni-forward-passes', [['worker_id', '${__data.fields.worker_id}']]) },
      ).size(24, 6),
    ]),
    g.row('Passes', [
      g.timeseries('Duration of passes', 'Wall time; what was timed differs by engine, see timing_scope. dynamo_fpm_forward_pass_duration_seconds', 's', [
        g.target(p.quantile(q[0], rank + ', timing_scope', fpm('forward_pass_duration_seconds_bucket')), legend + ' {{timing_scope}} ' + q[1])
        for q in [[0.5, 'p50'], [0.99, 'p99']]
      ]).needsTraffic(),
      p.heatmap('Duration of passes', 'Passes per second by duration. dynamo_fpm_forward_pass_duration_seconds', 's', fpm('forward_pass_duration_seconds_bucket')),
      g.timeseries('Forward passes', 'Per second, by what they ran. dynamo_fpm_forward_passes_total', 'ops', [
        g.target('sum by (kind) (%s)' % p.rate(fpm('forward_passes_total')), '{{kind}}'),
      ]).stacked(),
      ranks('Time in passes', 'Share of time that the rank spent in forward passes, by what is timed. dynamo_fpm_forward_pass_seconds_total', 'percentunit', 'sum by (%s, timing_scope) (%s)' % [rank, p.rate(fpm('forward_pass_seconds_total'))])
      { targets: [super.targets[0] { legendFormat: legend + ' {{timing_scope}}' }] },
      ranks('Decodes per pass', 'Mean of passes with decodes. dynamo_fpm_decode_batch_size', 'short', p.mean(rank, 'decode_batch_size', fpm)).needsTraffic(),
      ranks('Prompt tokens per pass', 'Mean of passes with prefills. dynamo_fpm_prefill_batch_tokens', 'short', p.mean(rank, 'prefill_batch_tokens', fpm)).needsTraffic(),
    ]),
    g.row('Load', [
      two('Scheduled requests', 'In the last active pass; a sample of many. dynamo_fpm_scheduled_prefill_requests, dynamo_fpm_scheduled_decode_requests', 'short', 'scheduled_%s_requests'),
      two('Queued requests', 'At the last active pass. TensorRT-LLM reports the whole engine on rank 0. dynamo_fpm_queued_prefill_requests, dynamo_fpm_queued_decode_requests', 'short', 'queued_%s_requests'),
      ranks('Queued prompt tokens', 'At the last active pass, cached prefixes included. dynamo_fpm_queued_prefill_tokens', 'short', sum('queued_prefill_tokens')).needsTraffic(),
      g.timeseries('Imbalance of ranks', 'Decode work of the ranks of a worker, (max - min) / mean: each pass waits for the slowest. dynamo_fpm_decode_kv_tokens_total', 'none', [
        g.target(
          '(max by (pipeline, worker_id) (%(d)s) - min by (pipeline, worker_id) (%(d)s)) / (avg by (pipeline, worker_id) (%(d)s) > 0)' % { d: 'sum by (%s) (%s)' % [rank, decode] },
          '{{worker_id}}',
        ),
      ]).needsTraffic(),
      ranks('Prompt tokens', 'Computed per second, without cached prefixes. dynamo_fpm_prefill_tokens_total', 'short', rate('prefill_tokens_total')),
      ranks('Decodes', 'Decode requests run per second. dynamo_fpm_decode_requests_total', 'short', rate('decode_requests_total')),
    ]),
    g.row('Records', [
      ranks('Records', 'Per second, heartbeats included. dynamo_fpm_records_total', 'ops', rate('records_total')),
      ranks('Records lost', 'Per second. dynamo_fpm_records_lost_total', 'ops', rate('records_lost_total')),
      g.timeseries('Messages refused', 'Per second, by reason. dynamo_fpm_records_rejected_total', 'ops', [
        g.target('sum by (reason) (%s)' % p.rate(fpm('records_rejected_total')), '{{reason}}'),
      ]),
      g.timeseries('Connections', '1 while the exporter is subscribed. omni_exporter_fpm_connected', 'none', [
        g.target('max by (endpoint) (%s)' % p.process('omni_exporter_fpm_connected'), '{{endpoint}}'),
      ]).range(0, 1),
    ]),
  ])
