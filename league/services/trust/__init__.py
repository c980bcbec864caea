"""Trust in workers: statistical tests of their results, reviews and quarantine; registration is in `workers`."""
