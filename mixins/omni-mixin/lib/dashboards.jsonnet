function(config={})
  local dashboards = ((import '../mixin.libsonnet') + { _config+:: config }).grafanaDashboards;
  { [name]: dashboards[name] for name in std.objectFields(dashboards) }
