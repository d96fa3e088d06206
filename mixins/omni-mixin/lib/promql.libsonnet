// The few pieces that expressions are put together from. `config` is _config.
function(config) {
  local join(parts) = std.join(', ', std.filter(function(p) p != '', parts)),

  // A selector of a family, with the configured matchers.
  metric(name, matchers=''):
    local all = join([matchers, config.selector]);
    if all == '' then name else '%s{%s}' % [name, all],

  // The same of an omni family, named without its prefix.
  omni(name, matchers=''): self.metric(config.omniPrefix + name, matchers),

  labels(more=[]): std.join(', ', config.commonLabels + more),

  by(more=[]): 'by (%s)' % self.labels(more),

  on(more=[]): 'on (%s)' % self.labels(more),

  // A number as PromQL and people write it; std.toString(0.1) has seventeen digits.
  number(x): '%.10g' % x,

  // Matches a bucket bound in each spelling: a whole number is le="1" in client_golang's text and in Prometheus 2, and
  // le="1.0" in the Python client's and after Prometheus 3 has normalized it.
  le(threshold):
    local escaped = std.strReplace(threshold, '.', '\\\\.');
    if std.length(std.findSubstr('.', threshold)) > 0
    then 'le="%s"' % threshold
    else 'le=~"%s|%s\\\\.0"' % [escaped, escaped],

  // The place that a description begins with: "pipeline NAME, " where there is a name.
  place:: '{{ with $labels.pipeline }}Pipeline {{ . }}: {{ end }}',
}
