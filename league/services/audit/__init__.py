"""The audit log: append, list and stream events; the audited changes happen in other packages."""
