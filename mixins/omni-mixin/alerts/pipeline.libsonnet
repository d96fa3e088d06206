// Stages, replicas and their queues.
local alert = import '../lib/alert.libsonnet';
local promql = import '../lib/promql.libsonnet';

function(c)
  local q = promql(c);
  local a = alert(c);
  local n = q.number;
  local running = q.metric('vllm:num_requests_running', 'stage!=""');
  local waiting = q.metric('vllm:num_requests_waiting', 'stage!=""');
  local replica = ['model_name', 'stage', 'replica'];
  local stage = ['model_name', 'stage'];
  local where = q.place + 'stage {{ $labels.stage }} ';
  local whereReplica = q.place + 'replica {{ $labels.replica }} of stage {{ $labels.stage }} ';
  [
    a(
      'OmniStageDown',
      |||
        max %(by)s (max_over_time(%(seen)s[2m])) == 0
          and %(on)s
        max %(by)s (max_over_time(%(expected)s[2m])) > 0
      ||| % {
        by: q.by(['stage']),
        on: q.on(['stage']),
        seen: q.metric('omni_exporter_engines_seen'),
        expected: q.metric('omni_exporter_engines_expected'),
      },
      '3m',
      c.criticalSeverity,
      'No replica of a stage is seen.',
      where + 'shows none of its engines, so no request can pass it. If its server is up, its engines are dead or log no statistics.',
    ),
    a(
      'OmniReplicaMissing',
      |||
        (
          max %(by)s (max_over_time(%(expected)s[5m]))
            - %(on)s
          max %(by)s (max_over_time(%(seen)s[5m]))
        ) > 0
          and %(on)s
        max %(by)s (max_over_time(%(seen)s[5m])) > 0
      ||| % {
        by: q.by(['stage']),
        on: q.on(['stage']),
        seen: q.metric('omni_exporter_engines_seen'),
        expected: q.metric('omni_exporter_engines_expected'),
      },
      '5m',
      c.warningSeverity,
      'Replicas of a stage are missing.',
      where + 'lacks {{ $value }} of the replicas that are configured; the others carry its load. Find the missing one in the table of the Stages dashboard and look at its log.',
    ),
    a(
      'OmniPipelineStuck',
      |||
        sum %(by)s (min_over_time(%(running)s[5m])) > 0
          unless %(on)s
        sum %(by)s (increase(%(success)s[%(window)s])) > 0
      ||| % {
        by: q.by(['model_name']),
        on: q.on(['model_name']),
        running: q.omni('num_requests_running'),
        success: q.omni('requests_success_total', 'finished_reason!~"abort|error"'),
        window: c.stuckWindow,
      },
      '5m',
      c.criticalSeverity,
      'Requests run and none finishes.',
      q.place + '{{ $value }} requests of {{ $labels.model_name }} are running, and none has finished in %s. ' % c.stuckWindow +
      'Find the first stage whose engines do not step (Stages dashboard, engine steps), and the edge before it (Transfer dashboard).',
    ),
    a(
      'OmniReplicaStalled',
      |||
        min %(by)s (min_over_time(%(running)s[5m])) > 0
          and %(on)s
        sum %(by)s (rate(%(steps)s[5m])) == 0
          and %(on)s
        sum %(by)s (max_over_time(%(steps)s[5m])) > 0
      ||| % {
        by: q.by(replica),
        on: q.on(replica),
        running: running,
        steps: q.metric('vllm:iteration_tokens_total_count', 'stage!=""'),
      },
      '2m',
      c.criticalSeverity,
      'An engine holds requests and does not step.',
      whereReplica + 'has {{ $value }} running requests and has not computed a token for five minutes. If a stage before it is stalled, too, it waits for that one; else it hangs: take stacks of its process, then restart it.',
    ),
    a(
      'OmniReplicaImbalance',
      |||
        (
          max %(by)s (avg_over_time(%(running)s[10m]))
            - %(on)s
          min %(by)s (avg_over_time(%(running)s[10m]))
        )
          / %(on)s
        (avg %(by)s (avg_over_time(%(running)s[10m])) > %(floor)s)
          > %(ratio)s
      ||| % { by: q.by(stage), on: q.on(stage), running: running, floor: n(c.imbalanceMinimumRunning), ratio: n(c.imbalanceRatio) },
      '15m',
      c.warningSeverity,
      'The replicas of a stage are loaded unevenly.',
      where + 'has replicas whose running requests differ by {{ $value | printf "%.1f" }} times the mean. Look for a slow replica, and at how requests are routed.',
    ),
    a(
      'OmniKvCachePressure',
      |||
        max %(by)s (min_over_time(%(kv)s[5m])) > %(ratio)s
          and %(on)s
        max %(by)s (min_over_time(%(waiting)s[5m])) > 0
      ||| % {
        by: q.by(replica),
        on: q.on(replica),
        kv: q.metric('vllm:kv_cache_usage_perc', 'stage!=""'),
        waiting: waiting,
        ratio: n(c.kvCacheRatio),
      },
      '5m',
      c.warningSeverity,
      'The KV cache is full and requests wait for it.',
      whereReplica + 'has {{ $value | humanizePercentage }} of its KV cache in use at the least, while requests wait. Add replicas, shorten contexts, or give the engine more KV cache.',
    ),
    a(
      'OmniQueueGrowing',
      |||
        sum %(by)s (avg_over_time(%(waiting)s[5m]))
          > %(on)s
        (%(factor)s * count %(by)s (avg_over_time(%(waiting)s[5m])))
          and %(on)s
        sum %(by)s (deriv(%(waiting)s[15m])) > 0
      ||| % { by: q.by(stage), on: q.on(stage), waiting: waiting, factor: n(c.queuePerReplica) },
      '10m',
      c.warningSeverity,
      'More requests arrive at a stage than it serves.',
      where + 'has {{ $value | humanize }} waiting requests, and their number grows. Add replicas or shed load; if one replica has most of them, it is slow or stalled.',
    ),
    a(
      'OmniPreemptions',
      'sum %s (rate(%s[10m])) > %s' % [q.by(replica), q.metric('vllm:num_preemptions_total', 'stage!=""'), n(c.preemptionsPerSecond)],
      '10m',
      c.warningSeverity,
      'An engine preempts requests all the time.',
      whereReplica + 'preempts {{ $value | printf "%.2f" }} requests per second and computes their tokens anew. Its KV cache is too small for what it batches: lower max_num_seqs or add replicas.',
    ),
    a(
      'OmniHighAbortRatio',
      |||
        sum %(by)s (increase(%(aborted)s[10m]))
          / %(on)s
        (sum %(by)s (increase(%(all)s[10m])) > %(floor)s)
          > %(ratio)s
      ||| % {
        by: q.by(['model_name']),
        on: q.on(['model_name']),
        aborted: q.omni('requests_success_total', 'finished_reason=~"abort|error"'),
        all: q.omni('requests_success_total'),
        floor: n(c.abortMinimumRequests),
        ratio: n(c.abortRatio),
      },
      '5m',
      c.warningSeverity,
      'Many requests end without an answer.',
      q.place + '{{ $value | humanizePercentage }} of the requests of {{ $labels.model_name }} are aborted: by clients that hang up, or with an engine that they needed. ' +
      'Compare with latency and with missing replicas.',
    ),
  ]
