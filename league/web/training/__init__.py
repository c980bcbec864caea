"""Training pages: progress, findings, opponents and curves of learners; no runs, which are in `league.web.runs`."""
