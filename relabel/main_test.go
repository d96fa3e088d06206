package relabel

import "flag"

var update = flag.Bool("update", false, "write testdata/*.golden anew")
