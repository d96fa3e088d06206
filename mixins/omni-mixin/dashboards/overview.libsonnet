// The whole pipeline on one page, and where to go from there.
local g = import '../lib/grafana.libsonnet';
local panels = import '../lib/panels.libsonnet';

function(c)
  local p = panels(c);
  local v = p.variables;
  local finished = p.omni('requests_success_total');
  local stageOf(name) = p.model(name, 'stage!=""');

  g.dashboard(c, 'Overview', 'omni-overview', 'Requests, stages and audio of the selected pipelines.', [v.job, v.pipeline, v.model], [
    g.row('', [
      g.stat('Requests', 'Requests that ended per second, aborted ones included. %srequests_success_total' % c.omniPrefix, 'reqps', 'sum(%s)' % p.rate(finished)),
      g.stat('Running', 'Requests scheduled and not finished, across all stages. %snum_requests_running' % c.omniPrefix, 'short', 'sum(%s)' % p.omni('num_requests_running')),
      g.stat('Waiting', 'Requests that arrived and are not yet scheduled. %snum_requests_waiting' % c.omniPrefix, 'short', 'sum(%s)' % p.omni('num_requests_waiting')),
      g.stat('End-to-end latency, p95', 'From arrival to the end of the last stage, aborted requests left out. %se2e_request_latency_s' % c.omniPrefix, 's', p.quantile(0.95, '', p.omni('e2e_request_latency_s_bucket'))).needsTraffic(),
      g.stat('Aborted',
             'Share of requests that end as abort or error, among them clients that hang up. %srequests_success_total' % c.omniPrefix,
             'percentunit',
             'sum(%s) / (sum(%s) > 0)' % [p.rate(p.omni('requests_success_total', 'finished_reason=~"abort|error"')), p.rate(finished)])
      .thresholds([[null, 'green'], [c.abortRatio, 'orange']]).needsTraffic(),
      g.stat('Firing alerts', 'Alerts of this mixin that fire for the selected jobs. ALERTS', 'short', 'count(ALERTS{alertstate="firing", alertname=~"Omni.*|DynamoFpm.*", job=~"$job"}) or vector(0)')
      .thresholds([[null, 'green'], [1, 'red']]),
      g.stat('First audio packet, p95', 'From arrival to the first audio at the client. %saudio_ttfp_s' % c.omniPrefix, 's', p.quantile(0.95, '', p.omni('audio_ttfp_s_bucket'))).needsTraffic(),
      g.stat('Real-time factor, p95', 'Generation time by audio duration; above 1, audio is made more slowly than it plays. %saudio_rtf' % c.omniPrefix, 'none', p.quantile(0.95, '', p.omni('audio_rtf_bucket')))
      .decimals(2).thresholds([[null, 'green'], [1, 'red']]).needsTraffic(),
      g.stat('Continuous streams',
             'Share of measured audio streams without an audible gap. %saudio_continuity_ok_total by %saudio_underrun_s_count' % [c.omniPrefix, c.omniPrefix],
             'percentunit',
             'sum(%s) / (sum(%s) > 0)' % [p.rate(p.omni('audio_continuity_ok_total', 'threshold_ms="%s"' % c.discontinuityThresholdMs)), p.rate(p.omni('audio_underrun_s_count'))])
      .thresholds([[null, 'red'], [1 - c.discontinuityRatio, 'green']]).needsTraffic(),
      g.stat('Silent answers',
             'Share of finished audio answers without audio data. %saudio_skipped_requests_total' % c.omniPrefix,
             'percentunit',
             '(sum(%(s)s) or vector(0)) / ((sum(%(s)s) or vector(0)) + sum(%(d)s) > 0)' % { s: p.rate(p.omni('audio_skipped_requests_total')), d: p.rate(p.omni('audio_duration_s_count')) })
      .thresholds([[null, 'green'], [c.silentLossRatio, 'red']]).needsTraffic(),
      g.stat('Targets down', 'Engine servers whose last page did not count. omni_exporter_target_up', 'short', 'sum(1 - %s)' % p.own('omni_exporter_target_up'))
      .thresholds([[null, 'green'], [1, 'red']]),
      g.stat('Replicas missing',
             'Engines that the configuration names and no page shows. omni_exporter_engines_expected, omni_exporter_engines_seen',
             'short',
             'sum(%s - %s)' % [p.own('omni_exporter_engines_expected'), p.own('omni_exporter_engines_seen')])
      .thresholds([[null, 'green'], [1, 'red']]),
    ]),
    g.row('Stages', [
      g.table(
        'Stages',
        'One row for each stage. The stage leads to its replicas. vllm:num_requests_running, vllm:num_requests_waiting, vllm:kv_cache_usage_perc, vllm:time_to_first_token_seconds, vllm:generation_tokens_total, omni_exporter_engines_seen, omni_exporter_engines_expected',
        ['pipeline', 'stage', 'name'],
        [
          ['Replicas configured', 'short', 'sum by (pipeline, stage, name) (%s * on (job, pipeline, stage, instance) group_left (name) %s)' % [p.own('omni_exporter_engines_expected'), p.own('omni_exporter_stage_info')]],
          ['Replicas seen', 'short', 'sum by (pipeline, stage) (%s)' % p.own('omni_exporter_engines_seen')],
          ['Running', 'short', 'sum by (pipeline, stage) (%s)' % stageOf('vllm:num_requests_running')],
          ['Waiting', 'short', 'sum by (pipeline, stage) (%s)' % stageOf('vllm:num_requests_waiting')],
          ['KV cache, fullest', 'percentunit', 'max by (pipeline, stage) (%s)' % stageOf('vllm:kv_cache_usage_perc')],
          ['First token, p95', 's', p.quantile(0.95, 'pipeline, stage', stageOf('vllm:time_to_first_token_seconds_bucket'))],
          ['Tokens per second', 'short', 'sum by (pipeline, stage) (%s)' % p.rate(stageOf('vllm:generation_tokens_total'))],
        ],
        { stage: p.onward('Replicas of this stage', 'omni-stages', [['stage', '${__data.fields.stage}']]) },
      ).size(24, 6),
      g.timeseries('Where time goes', 'Mean time that a request spends in each stage, and a chunk between two. Stages overlap when audio streams, so this does not add up to the end-to-end latency. vllm:e2e_request_latency_seconds, %stransfer_in_flight_s' % c.omniPrefix, 's', [
        g.target(p.mean('pipeline, stage', 'vllm:e2e_request_latency_seconds', stageOf), '{{pipeline}} stage {{stage}}'),
        g.target(p.mean('pipeline, from_stage, to_stage', 'transfer_in_flight_s', p.omni), '{{pipeline}} {{from_stage}} to {{to_stage}}'),
      ]).needsTraffic().size(24, 8),
    ]),
    g.row('Requests', [
      g.timeseries('Requests by how they end', 'abort covers failure, cancellation and disconnect. %srequests_success_total' % c.omniPrefix, 'reqps', [
        g.target('sum by (finished_reason) (%s)' % p.rate(finished), '{{finished_reason}}'),
      ]).stacked(),
      g.timeseries('Running and waiting', 'Requests in the pipeline. %snum_requests_running, %snum_requests_waiting' % [c.omniPrefix, c.omniPrefix], 'short', [
        g.target('sum by (pipeline) (%s)' % p.omni('num_requests_running'), '{{pipeline}} running'),
        g.target('sum by (pipeline) (%s)' % p.omni('num_requests_waiting'), '{{pipeline}} waiting'),
      ]),
      p.quantiles('End-to-end latency', 'From arrival to the end of the last stage. %se2e_request_latency_s' % c.omniPrefix, 's', p.omni('e2e_request_latency_s_bucket')),
      p.heatmap('End-to-end latency', 'Requests per second by latency. %se2e_request_latency_s' % c.omniPrefix, 's', p.omni('e2e_request_latency_s_bucket')),
    ]),
  ])
