"""`trainer doctor`: read the metrics of a run directory and report its diagnoses."""
