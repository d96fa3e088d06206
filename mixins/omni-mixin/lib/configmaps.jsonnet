// One ConfigMap for each dashboard, with the label that Grafana's sidecar looks for.
function(config={})
  local dashboards = ((import '../mixin.libsonnet') + { _config+:: config }).grafanaDashboards;
  std.join('\n---\n', [
    std.manifestYamlDoc({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: {
        name: dashboards[file].uid + '-dashboard',
        labels: { 'app.kubernetes.io/name': 'omni-exporter', grafana_dashboard: '1' },
      },
      data: { [file]: std.manifestJsonEx(dashboards[file], '  ') },
    }, indent_array_in_object=true, quote_keys=false)
    for file in std.objectFields(dashboards)
  ])
