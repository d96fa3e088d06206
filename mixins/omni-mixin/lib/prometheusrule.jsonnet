// For the Prometheus operator. A Prometheus of its selects rules by label, often `release`: add the one that yours wants.
function(config={})
  local mixin = (import '../mixin.libsonnet') + { _config+:: config };
  std.manifestYamlDoc({
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PrometheusRule',
    metadata: {
      name: 'omni-mixin',
      namespace: 'omni-exporter',
      labels: { 'app.kubernetes.io/name': 'omni-exporter', 'app.kubernetes.io/component': 'monitoring' },
    },
    spec: { groups: mixin.prometheusRules.groups + mixin.prometheusAlerts.groups },
  }, indent_array_in_object=true, quote_keys=false)
