module github.com/omni-exporter/omni_exporter/tools/release

go 1.26.0

tool github.com/prometheus/promu

require (
	github.com/Masterminds/semver/v3 v3.5.0 // indirect
	github.com/alecthomas/kingpin/v2 v2.4.0 // indirect
	github.com/alecthomas/units v0.0.0-20240927000941-0f3dac36c52b // indirect
	github.com/google/go-github/v25 v25.1.3 // indirect
	github.com/google/go-querystring v1.0.0 // indirect
	github.com/prometheus/common v0.68.1 // indirect
	github.com/prometheus/promu v0.20.0 // indirect
	github.com/xhit/go-str2duration/v2 v2.1.0 // indirect
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	golang.org/x/oauth2 v0.36.0 // indirect
	golang.org/x/sync v0.21.0 // indirect
)
