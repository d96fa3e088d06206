// Every replica of every stage: one row of panels for each stage.
local g = import '../lib/grafana.libsonnet';
local panels = import '../lib/panels.libsonnet';

function(c)
  local p = panels(c);
  local v = p.variables;
  local place = 'pipeline, stage, replica';
  local legend = '{{pipeline}} {{stage}}/{{replica}}';
  local sum(name) = 'sum by (%s) (%s)' % [place, p.replica(name)];
  local rate(name) = 'sum by (%s) (%s)' % [place, p.rate(p.replica(name))];
  local replicas(title, description, unit, expr) = g.timeseries(title, description, unit, [g.target(expr, legend)]).size(8, 7);
  local share(part, whole) = '%s / (%s > 0)' % [rate(part), rate(whole)];

  g.dashboard(c, 'Stages', 'omni-stages', 'The replicas of each stage, stage by stage.', [v.job, v.pipeline, v.model, v.stage, v.replica], [
    g.row('', [
      g.table(
        'Replicas',
        'One row for each replica. vllm:num_requests_running, vllm:num_requests_waiting, vllm:kv_cache_usage_perc, vllm:time_to_first_token_seconds, vllm:generation_tokens_total, vllm:iteration_tokens_total, vllm:num_preemptions_total',
        ['pipeline', 'stage', 'replica'],
        [
          ['Running', 'short', sum('vllm:num_requests_running')],
          ['Waiting', 'short', sum('vllm:num_requests_waiting')],
          ['KV cache', 'percentunit', 'max by (%s) (%s)' % [place, p.replica('vllm:kv_cache_usage_perc')]],
          ['First token, p95', 's', p.quantile(0.95, place, p.replica('vllm:time_to_first_token_seconds_bucket'))],
          ['Tokens per second', 'short', rate('vllm:generation_tokens_total')],
          ['Steps per second', 'short', rate('vllm:iteration_tokens_total_count')],
          ['Preemptions per second', 'short', rate('vllm:num_preemptions_total')],
        ],
        {
          stage: p.onward('Only this stage', 'omni-stages', [['stage', '${__data.fields.stage}']]),
          replica: p.onward('Only this replica', 'omni-stages', [['stage', '${__data.fields.stage}'], ['replica', '${__data.fields.replica}']]),
        },
      ),
    ]),
    g.row('Stage $stage', [
      replicas('Running', 'Requests in the batch. vllm:num_requests_running', 'short', sum('vllm:num_requests_running')),
      replicas('Waiting', 'Requests in the queue. vllm:num_requests_waiting', 'short', sum('vllm:num_requests_waiting')),
      replicas('KV cache in use', 'Full is normal under load, and trouble when requests wait for it. vllm:kv_cache_usage_perc', 'percentunit', 'max by (%s) (%s)' % [place, p.replica('vllm:kv_cache_usage_perc')]).range(0, 1),
      replicas('Time to first token, p95', 'From arrival at the stage. vllm:time_to_first_token_seconds', 's', p.quantile(0.95, place, p.replica('vllm:time_to_first_token_seconds_bucket'))).needsTraffic(),
      replicas('Inter-token latency, p95', 'Of stages that generate token by token. vllm:inter_token_latency_seconds', 's', p.quantile(0.95, place, p.replica('vllm:inter_token_latency_seconds_bucket'))).notEverywhere(),
      replicas('Generated tokens', 'Per second. vllm:generation_tokens_total', 'short', rate('vllm:generation_tokens_total')),
      replicas('Engine steps', 'Scheduler iterations per second: zero with requests running is a hang. vllm:iteration_tokens_total_count', 'ops', rate('vllm:iteration_tokens_total_count')),
      replicas('Tokens per step', 'Mean over the steps. vllm:iteration_tokens_total', 'short', p.mean(place, 'vllm:iteration_tokens_total', p.replica)).needsTraffic(),
      replicas('Preemptions', 'Requests taken off the batch, whose tokens are computed anew. vllm:num_preemptions_total', 'ops', rate('vllm:num_preemptions_total')),
      replicas('Prefix cache hits', 'Share of prompt tokens found in the cache. vllm:prefix_cache_hits_total by vllm:prefix_cache_queries_total', 'percentunit', share('vllm:prefix_cache_hits_total', 'vllm:prefix_cache_queries_total')).range(0, 1).notEverywhere(),
      g.timeseries('Queue, prefill and decode time', 'Mean of the requests that finished. vllm:request_queue_time_seconds, vllm:request_prefill_time_seconds, vllm:request_decode_time_seconds', 's', [
        g.target(p.mean('pipeline, stage', 'vllm:request_%s_time_seconds' % phase, p.replica), '{{pipeline}} {{stage}} ' + phase)
        for phase in ['queue', 'prefill', 'decode']
      ]).stacked().needsTraffic().size(8, 7),
      replicas('Share of the load',
               'Of the running requests of the stage. vllm:num_requests_running',
               'percentunit',
               '%s / on (pipeline, stage) group_left () (sum by (pipeline, stage) (%s) > 0)' % [sum('vllm:num_requests_running'), p.replica('vllm:num_requests_running')])
      .range(0, 1).needsTraffic(),
    ], repeat='stage'),
  ])
