package main

import "github.com/alecthomas/kingpin/v2"

func addFPM(fpm *kingpin.CmdClause, all commands) {
	addFPMWatch(fpm, all)
	addFPMCat(fpm, all)
	addFPMSummary(fpm, all)
	addFPMPlot(fpm, all)
	addFPMReplay(fpm, all)
}
