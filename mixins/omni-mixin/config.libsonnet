// Everything that a user may want to change. Override with
//   (import 'mixin.libsonnet') + { _config+:: { omniPrefix: 'vllm_omni:' } }
//
// Thresholds are starting points: bounds of the engines' own histogram buckets where a histogram is compared, rules of
// thumb elsewhere. None of them was measured on your pipeline.
{
  _config+:: {
    // Selects the jobs that scrape the exporter's /metrics; used for `up` alone, the one family that is not the exporter's
    // own. A PodMonitor's job is NAMESPACE/NAME. Jobs that scrape upstreams through /probe are left out: what they say of
    // a target OmniExporterTargetDown says, too.
    exporterSelector: 'job=~"(.+/)?omni[^/]*", job!~".*-upstreams"',

    // Further matchers put into every selector of alerts and rules, such as 'cluster="prod"'. Empty means none: the
    // families' names are unique already.
    selector: '',

    // The prefix of the omni families, as in omni_prefix of the exporter's configuration: 'vllm:omni_' or 'vllm_omni:'.
    omniPrefix: 'vllm:omni_',

    // Labels that tell one installation from another. Every aggregation keeps them. Add 'cluster' or the like where
    // Prometheus holds several. A pipeline without a name has no label `pipeline`, which does no harm here.
    commonLabels: ['job', 'pipeline'],

    // Alert and rule groups, and the dashboards that go with them, that can be switched off. A family that does not
    // exist raises no alert, so this is about tidiness: no alert of this mixin is built on absent().
    enableExporter: true,
    enablePipeline: true,
    enableAudio: true,
    enableTransfer: true,
    enableForwardPass: true,
    enableSlo: true,

    // Values of the label `severity`. Critical is meant to wake somebody, warning to be looked at in working hours, and
    // info for the ticket queue.
    criticalSeverity: 'critical',
    warningSeverity: 'warning',
    infoSeverity: 'info',

    // %s becomes the alert's name in lower case, which is the anchor of its section in runbook.md.
    runbookURLPattern: 'https://github.com/omni-exporter/omni_exporter/blob/main/mixins/omni-mixin/runbook.md#%s',

    // --- the exporter and its targets

    // Share of a target's scrapes that may fail over ten minutes before somebody should look.
    scrapeFailureRatio: 0.1,
    // Seconds that a target's page may take. Half of the exporter's default scrape_timeout (10s): past it a busy engine
    // is close to being lost altogether.
    scrapeSlowSeconds: 5,
    // Share of events that may be refused over ten minutes. A sender that obeys the schema has none refused.
    eventsRejectedRatio: 0.01,
    // Share of events.max_series in use. Past the limit, events with new label sets are refused.
    eventsSeriesRatio: 0.9,

    // --- the pipeline and its engines

    // How long a pipeline with requests running may go without a finished one. Longer than the slowest request that is
    // normal: raise it for long videos.
    stuckWindow: '10m',
    // Spread of running requests over a stage's replicas, (max - min) / mean. With two replicas 1 is three to one.
    imbalanceRatio: 1,
    // Mean of running requests per replica below which a spread is of no interest.
    imbalanceMinimumRunning: 4,
    // Share of KV cache in use. A full cache is normal under load, so this counts only while requests wait.
    kvCacheRatio: 0.95,
    // Waiting requests per replica above which a queue that still grows is reported.
    queuePerReplica: 20,
    // Preemptions per second and replica. Each one computes a request's tokens anew.
    preemptionsPerSecond: 0.5,
    // Share of requests that end as abort or error over ten minutes, and how many requests make a share meaningful.
    // Clients that hang up are among them, so this is no reason to wake anybody.
    abortRatio: 0.05,
    abortMinimumRequests: 20,

    // --- audio

    // Share of answers without audio data over 15 minutes, and how many such answers make a case.
    silentLossRatio: 0.01,
    silentLossMinimum: 3,
    // Share of streams over 15 minutes that a listener heard a gap in, at the threshold that the families count
    // (threshold_ms, 100 in vLLM-Omni), and how many streams make a share meaningful.
    discontinuityThresholdMs: '100',
    discontinuityRatio: 0.05,
    discontinuityMinimumStreams: 20,

    // --- transfers between stages

    // Seconds in flight at the 99th percentile; a bucket bound of vLLM-Omni's transfer families.
    transferSlowSeconds: 0.5,
    // Share of a transfer's time that is spent in flight, and the mean time in flight below which it does not matter.
    inFlightRatio: 0.5,
    inFlightMinimumSeconds: 0.01,

    // --- forward passes

    // Share of records lost over ten minutes, of those published.
    fpmLostRatio: 0.01,
    // Prompt tokens waiting on one rank above which a queue that still grows is reported.
    fpmQueuedPrefillTokens: 65536,
    // Spread of decode work over the ranks of a worker, (max - min) / mean, and the mean rate of KV tokens read by
    // decodes below which a spread is of no interest.
    fpmImbalanceRatio: 1,
    fpmImbalanceMinimumTokens: 10000,

    // --- service level objectives

    // Of the observations of `metric` (a histogram, without its suffix), the share `target` is to be at most `threshold`.
    // `threshold` is a string and must be a bound of the histogram's buckets; OmniSloBucketMissing says when it is none.
    // `matchers` narrows what is counted: the first stage's first token is what a user waits for, not the talker's.
    // Observations are counted by sloLabels beside the common ones. `order` is that of the dashboard. A null in place of an
    // objective removes it.
    slos: {
      local omni = $._config.omniPrefix,
      ttft: {
        order: 1,
        title: 'Time to first token',
        alert: 'OmniTtftBudgetBurn',
        metric: 'vllm:time_to_first_token_seconds',
        matchers: 'stage="0"',
        threshold: '1',
        unit: 's',
        target: 0.99,
      },
      itl: {
        order: 2,
        title: 'Inter-token latency',
        alert: 'OmniItlBudgetBurn',
        metric: 'vllm:inter_token_latency_seconds',
        matchers: 'stage="0"',
        threshold: '0.1',
        unit: 's',
        target: 0.99,
      },
      e2e: {
        order: 3,
        title: 'End-to-end latency',
        alert: 'OmniE2eBudgetBurn',
        metric: omni + 'e2e_request_latency_s',
        matchers: '',
        threshold: '30',
        unit: 's',
        target: 0.99,
      },
      audio_ttfp: {
        order: 4,
        title: 'Time to first audio packet',
        alert: 'OmniAudioTtfpBudgetBurn',
        metric: omni + 'audio_ttfp_s',
        matchers: '',
        threshold: '1',
        unit: 's',
        target: 0.99,
      },
      audio_rtf: {
        order: 5,
        title: 'Real-time factor of audio',
        alert: 'OmniAudioRtfBudgetBurn',
        metric: omni + 'audio_rtf',
        matchers: '',
        threshold: '1',
        unit: '',
        target: 0.99,
      },
      audio_underrun: {
        order: 6,
        title: 'Audio underrun',
        alert: 'OmniAudioUnderrunBudgetBurn',
        metric: omni + 'audio_underrun_s',
        matchers: '',
        threshold: '0.1',
        unit: 's',
        target: 0.99,
      },
    },
    sloLabels: ['model_name'],

    // Pairs of windows: the budget burns `factor` times as fast as it would last for 30 days over both. The short window
    // makes the alert end soon after the cause. The longest window needs as much retention.
    burnWindows: [
      { long: '1h', short: '5m', factor: 14.4, 'for': '2m', severity: $._config.criticalSeverity },
      { long: '6h', short: '30m', factor: 6, 'for': '15m', severity: $._config.criticalSeverity },
      { long: '1d', short: '2h', factor: 3, 'for': '1h', severity: $._config.warningSeverity },
      { long: '3d', short: '6h', factor: 1, 'for': '3h', severity: $._config.warningSeverity },
    ],
    // Observations in the long window below which a burn rate says nothing.
    sloMinimumObservations: 50,

    // --- dashboards

    dashboardNamePrefix: 'vLLM-Omni / ',
    dashboardTags: ['omni-mixin'],
    dashboardRefresh: '30s',
    // Only data sources whose name matches are offered.
    datasourceRegex: '',
    // false: a provisioned dashboard cannot be edited in place, only saved under another name.
    dashboardEditable: false,
  },
}
