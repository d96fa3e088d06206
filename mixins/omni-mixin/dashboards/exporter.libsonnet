// The exporter itself, and what it scrapes.
local g = import '../lib/grafana.libsonnet';
local panels = import '../lib/panels.libsonnet';

function(c)
  local p = panels(c);
  local v = p.variables;
  local target = 'pipeline, target';
  local gauge(name) = 'max by (%s) (%s)' % [target, p.own('omni_exporter_target_' + name)];
  local targets(title, description, unit, expr) = g.timeseries(title, description, unit, [g.target(expr, '{{pipeline}} {{target}}')]);
  local by(label, name) = 'sum by (%s) (%s)' % [label, p.rate(p.process(name))];
  local instance(title, description, unit, expr) = g.timeseries(title, description, unit, [g.target(expr, '{{instance}}')]).size(6, 7);

  g.dashboard(c, 'Exporter', 'omni-exporter', 'The scrapes of the exporter, what merging cost, and the process itself.', [v.job, v.pipeline], [
    g.row('', [
      g.stat('Targets', 'Engine servers that are scraped. omni_exporter_target_up', 'short', 'count(%s)' % p.own('omni_exporter_target_up')),
      g.stat('Targets down', 'Those whose last page did not count. omni_exporter_target_up', 'short', 'sum(1 - %s)' % p.own('omni_exporter_target_up')).thresholds([[null, 'green'], [1, 'red']]),
      g.stat('Samples', 'On the last pages of all targets. omni_exporter_target_scrape_samples_scraped', 'short', 'sum(%s)' % p.own('omni_exporter_target_scrape_samples_scraped')),
      g.stat('Unmapped engines', 'Engines outside the stage map. omni_exporter_unmapped_engines', 'short', 'sum(%s)' % p.own('omni_exporter_unmapped_engines')).thresholds([[null, 'green'], [1, 'orange']]),
      g.stat('Configuration', '1 when the last reload succeeded. omni_exporter_config_last_reload_successful', 'none', 'min(%s)' % p.process('omni_exporter_config_last_reload_successful'))
      .thresholds([[null, 'red'], [1, 'green']]) {
        fieldConfig+: { defaults+: { mappings: [{ type: 'value', options: { '0': { text: 'old', index: 0 }, '1': { text: 'in force', index: 1 } } }] } },
      },
      g.stat('Configuration loaded', 'Time since it was. omni_exporter_config_last_reload_success_timestamp_seconds', 's', 'time() - max(%s)' % p.process('omni_exporter_config_last_reload_success_timestamp_seconds')),
    ]),
    g.row('Targets', [
      g.table(
        'Targets',
        'One row for each target. omni_exporter_target_*',
        ['pipeline', 'target'],
        [
          ['Up', 'short', gauge('up')],
          ['Duration', 's', gauge('scrape_duration_seconds')],
          ['Body', 'bytes', gauge('scrape_body_size_bytes')],
          ['Samples', 'short', gauge('scrape_samples_scraped')],
          ['Unmapped engines', 'short', 'max by (%s) (%s)' % [target, p.own('omni_exporter_unmapped_engines')]],
          ['Failures', 'short', 'sum by (%s) (increase(%s[$__range]))' % [target, p.own('omni_exporter_target_scrape_failures_total')]],
        ],
      ).size(24, 6),
      targets('Scrape duration', 'Of the last scrape. omni_exporter_target_scrape_duration_seconds', 's', gauge('scrape_duration_seconds')),
      g.timeseries('Failed scrapes', 'Per second, by reason. omni_exporter_target_scrape_failures_total', 'ops', [
        g.target('sum by (reason) (%s)' % p.rate(p.own('omni_exporter_target_scrape_failures_total')), '{{reason}}'),
      ]),
      targets('Samples', 'On the last page. omni_exporter_target_scrape_samples_scraped', 'short', gauge('scrape_samples_scraped')),
      g.timeseries('Replicas seen', 'Beside the number that is configured. omni_exporter_engines_seen, omni_exporter_engines_expected', 'short', [
        g.target('sum by (pipeline, stage) (%s)' % p.own('omni_exporter_engines_seen'), '{{pipeline}} {{stage}} seen'),
        g.target('sum by (pipeline, stage) (%s)' % p.own('omni_exporter_engines_expected'), '{{pipeline}} {{stage}} configured'),
      ]),
    ]),
    g.row('Merging', [
      g.timeseries('Conflicts', 'Disagreements between pages per second, by kind. omni_exporter_merge_conflicts_total', 'ops', [g.target(by('kind', 'omni_exporter_merge_conflicts_total'), '{{kind}}')]).size(8, 7),
      g.timeseries('Samples left out', 'Per second, by reason. omni_exporter_merge_dropped_samples_total', 'ops', [g.target(by('reason', 'omni_exporter_merge_dropped_samples_total'), '{{reason}}')]).size(8, 7),
      g.timeseries('Known lines', 'Share of the lines of pages that were known from the page before. omni_exporter_line_cache_hits_total', 'percentunit', [
        g.target('%(h)s / ((%(h)s + %(m)s) > 0)' % { h: by('instance', 'omni_exporter_line_cache_hits_total'), m: by('instance', 'omni_exporter_line_cache_misses_total') }, '{{instance}}'),
      ]).range(0, 1).needsTraffic().size(8, 7),
    ]),
    g.row('Events', [
      g.timeseries('Events accepted', 'Per second, by type. omni_exporter_events_received_total', 'ops', [g.target(by('type', 'omni_exporter_events_received_total'), '{{type}}')]).stacked().size(8, 7),
      g.timeseries('Events refused', 'Per second, by reason. omni_exporter_events_rejected_total', 'ops', [g.target(by('reason', 'omni_exporter_events_rejected_total'), '{{reason}}')]).size(8, 7),
      g.timeseries('Event series', 'Series made from events, beside the limit. omni_exporter_events_series, omni_exporter_events_series_limit', 'short', [
        g.target('max by (instance) (%s)' % p.process('omni_exporter_events_series'), '{{instance}} in use'),
        g.target('max by (instance) (%s)' % p.process('omni_exporter_events_series_limit'), '{{instance}} limit'),
      ]).size(8, 7),
    ]),
    g.row('Process', [
      instance('Processor', 'Seconds per second. process_cpu_seconds_total', 'percentunit', p.rate(p.process('process_cpu_seconds_total'))),
      instance('Memory', 'Resident. process_resident_memory_bytes', 'bytes', p.process('process_resident_memory_bytes')),
      instance('Goroutines', 'go_goroutines', 'short', p.process('go_goroutines')),
      instance('Open files', 'process_open_fds', 'short', p.process('process_open_fds')),
    ]),
  ])
