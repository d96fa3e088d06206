// What the dashboards of this mixin have in common: variables, selectors, and the panels that several show.
local g = import 'grafana.libsonnet';

function(config)
  local omni = config.omniPrefix;
  local join(parts) = std.join(', ', std.filter(function(p) p != '', parts));
  {
    // Matchers of the variables. A pipeline without a name has no label, which ".*" matches.
    local job = 'job=~"$job", pipeline=~"$pipeline"',
    local model = job + ', model_name=~"$model_name"',

    // A selector of a family without a model: of the exporter, or of forward passes.
    own(name, matchers=''): '%s{%s}' % [name, join([job, matchers])],
    // The same of one that is not a pipeline's but the process's.
    process(name, matchers=''): '%s{%s}' % [name, join(['job=~"$job"', matchers])],
    // Of a model's families, by their whole name or, of omni families, without the prefix.
    model(name, matchers=''): '%s{%s}' % [name, join([model, matchers])],
    omni(name, matchers=''): self.model(omni + name, matchers),
    // Of a replica's families, when the dashboard has variables for them.
    replica(name, matchers=''): self.model(name, join(['stage=~"$stage", replica=~"$replica"', matchers])),
    omniReplica(name, matchers=''): self.replica(omni + name, matchers),

    rate(selector): 'rate(%s[$__rate_interval])' % selector,

    // Without traffic there is no sample, rather than NaN: no quantile of these families is below zero.
    quantile(q, by, buckets): 'histogram_quantile(%g, sum by (%s) (rate(%s[$__rate_interval]))) >= 0' % [q, join([by, 'le']), buckets],
    mean(by, family, selector): 'sum by (%(by)s) (rate(%(sum)s[$__rate_interval])) / (sum by (%(by)s) (rate(%(count)s[$__rate_interval])) > 0)' %
                                { by: by, sum: selector(family + '_sum'), count: selector(family + '_count') },

    variables: {
      local everyEngine = '{__name__=~"vllm:num_requests_running|%snum_requests_running", %s}',
      // Both: upstreams that are scraped through /probe have a job of their own.
      job: g.variable('job', 'job', 'label_values({__name__=~"omni_exporter_build_info|vllm:num_requests_running"}, job)', '.+'),
      pipeline: g.variable('pipeline', 'Pipeline', 'label_values(omni_exporter_stage_info{job=~"$job"}, pipeline)', '.*'),
      model: g.variable('model_name', 'Model', 'label_values(%s, model_name)' % (everyEngine % [omni, job]), '.+'),
      stage: g.variable('stage', 'Stage', 'label_values(vllm:num_requests_running{%s}, stage)' % model, '.+'),
      replica: g.variable('replica', 'Replica', 'label_values(vllm:num_requests_running{%s, stage=~"$stage"}, replica)' % model, '.+'),
      worker: g.variable('worker_id', 'Worker', 'label_values(dynamo_fpm_up{%s}, worker_id)' % job, '.+'),
    },

    // Onward to another dashboard, with the variables that all share and with `extra`, ["stage", "${__data.fields.stage}"].
    onward(title, uid, extra=[]): g.link(
      title,
      '/d/%s?${datasource:queryparam}&${job:queryparam}&${pipeline:queryparam}&${model_name:queryparam}%s&${__url_time_range}' %
      [uid, std.join('', ['&var-%s=%s' % e for e in extra])],
    ),

    // p50, p95 and p99 of a histogram, over everything selected.
    quantiles(title, description, unit, buckets, by='pipeline', legend='{{pipeline}}'): g.timeseries(title, description, unit, [
      g.target($.quantile(q[0], by, buckets), std.lstripChars('%s %s' % [legend, q[1]], ' '))
      for q in [[0.5, 'p50'], [0.95, 'p95'], [0.99, 'p99']]
    ]).needsTraffic(),

    heatmap(title, description, unit, buckets):
      g.heatmap(title, description, unit, 'sum by (le) (rate(%s[$__rate_interval]))' % buckets),
  }
