// The exporter itself and what it scrapes.
local alert = import '../lib/alert.libsonnet';
local promql = import '../lib/promql.libsonnet';

function(c)
  local q = promql(c);
  local a = alert(c);
  local n = q.number;
  [
    a(
      'OmniExporterDown',
      'max_over_time(up{%s}[2m]) == 0' % std.join(', ', std.filter(function(s) s != '', [c.exporterSelector, c.selector])),
      '5m',
      c.criticalSeverity,
      'The exporter cannot be scraped.',
      'Prometheus has not got a page from {{ $labels.instance }} of job {{ $labels.job }}. Nothing is known of the engines behind it. ' +
      'See whether the process runs, and what the Prometheus page of targets says about it.',
    ),
    a(
      'OmniExporterTargetDown',
      'max %s (max_over_time(%s[2m])) == 0' % [q.by(['target']), q.metric('omni_exporter_target_up')],
      '3m',
      c.criticalSeverity,
      'An engine server cannot be scraped.',
      q.place + 'no whole page came from {{ $labels.target }}, and its series are absent. ' +
      'omni_exporter_target_scrape_failures_total says why by reason; look at the server itself first.',
    ),
    a(
      'OmniExporterScrapeFailures',
      |||
        sum %(by)s (increase(%(failures)s[10m]))
          / %(on)s group_left ()
        (sum %(byTarget)s (increase(%(scrapes)s[10m])) > 0)
          > %(ratio)s
      ||| % {
        by: q.by(['target', 'reason']),
        byTarget: q.by(['target']),
        on: q.on(['target']),
        failures: q.metric('omni_exporter_target_scrape_failures_total'),
        scrapes: q.metric('omni_exporter_target_scrapes_total'),
        ratio: n(c.scrapeFailureRatio),
      },
      '10m',
      c.warningSeverity,
      'Scrapes of an engine server fail now and then.',
      q.place + '{{ $value | humanizePercentage }} of the scrapes of {{ $labels.target }} fail with reason {{ $labels.reason }}, which leaves gaps. ' +
      'The log of the exporter has the details of each.',
    ),
    a(
      'OmniExporterScrapeSlow',
      'max %s (max_over_time(%s[5m])) > %s' % [q.by(['target']), q.metric('omni_exporter_target_scrape_duration_seconds'), n(c.scrapeSlowSeconds)],
      '10m',
      c.warningSeverity,
      'An engine server answers scrapes slowly.',
      q.place + 'scrapes of {{ $labels.target }} take up to {{ $value | humanizeDuration }}. Its API process is busy, or its page too large. ' +
      'Past scrape_timeout the target is lost.',
    ),
    a(
      'OmniExporterReloadFailed',
      'max %s (max_over_time(%s[5m])) == 0' % [q.by(['instance']), q.metric('omni_exporter_config_last_reload_successful')],
      '10m',
      c.warningSeverity,
      'The exporter runs with an old configuration.',
      'The last reload of {{ $labels.instance }} failed; it goes on with the configuration it had. ' +
      'Run omnitool check config on the file: it names the line and the remedy.',
    ),
    a(
      'OmniExporterUnmappedEngines',
      'max %s (max_over_time(%s[5m])) > 0' % [q.by(['target']), q.metric('omni_exporter_unmapped_engines')],
      '5m',
      c.warningSeverity,
      'Engines are outside the stage map.',
      q.place + '{{ $value }} engine(s) of {{ $labels.target }} have no place in the configured stages, so their series carry no stage and replica. ' +
      'Give the stages as many replicas as run.',
    ),
    a(
      'OmniExporterMergeConflicts',
      'sum %s (increase(%s[10m])) > 0' % [q.by(['kind']), q.metric('omni_exporter_merge_conflicts_total', 'kind=~"type|duplicate|label"')],
      '5m',
      c.warningSeverity,
      'Pages of engine servers contradict each other.',
      '{{ $value | humanize }} conflicts of kind {{ $labels.kind }} in ten minutes: two targets send the same series, or a family with two types. ' +
      'What was lost is in omni_exporter_merge_dropped_samples_total. Most often a target is listed twice, or a replica number is.',
    ),
    a(
      'OmniExporterEventsRejected',
      |||
        sum %(by)s (increase(%(rejected)s[10m]))
          / %(on)s group_left ()
        ((sum %(byJob)s (increase(%(rejected)s[10m])) + sum %(byJob)s (increase(%(received)s[10m]))) > 0)
          > %(ratio)s
      ||| % {
        by: q.by(['reason']),
        byJob: q.by(),
        on: q.on(),
        rejected: q.metric('omni_exporter_events_rejected_total'),
        received: q.metric('omni_exporter_events_received_total'),
        ratio: n(c.eventsRejectedRatio),
      },
      '5m',
      c.warningSeverity,
      'Events are refused.',
      '{{ $value | humanizePercentage }} of the events sent to the exporter are refused with reason {{ $labels.reason }} and are missing from the omni families. ' +
      'The answer to each batch tells the sender which line and why.',
    ),
    a(
      'OmniExporterEventSeriesLimit',
      |||
        max %(by)s (max_over_time(%(used)s[5m]))
          / %(on)s
        max %(by)s (max_over_time(%(limit)s[5m]))
          > %(ratio)s
      ||| % {
        by: q.by(['instance']),
        on: q.on(['instance']),
        used: q.metric('omni_exporter_events_series'),
        limit: q.metric('omni_exporter_events_series_limit'),
        ratio: n(c.eventsSeriesRatio),
      },
      '10m',
      c.warningSeverity,
      'The event families have almost as many series as they may.',
      '{{ $value | humanizePercentage }} of events.max_series of {{ $labels.instance }} is in use. Past the limit, events with new label values are refused. ' +
      'Look for a label with too many values (a model name with an identifier in it), else raise the limit.',
    ),
  ]
