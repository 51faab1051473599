"""Where runs are computed: on this machine, or on a Ray cluster."""
