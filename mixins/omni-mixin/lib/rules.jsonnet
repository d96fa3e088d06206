function(config={})
  local mixin = (import '../mixin.libsonnet') + { _config+:: config };
  std.manifestYamlDoc(mixin.prometheusRules, indent_array_in_object=true, quote_keys=false)
