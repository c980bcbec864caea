"""Rating periods: closing, rebuild from the match log, and what-if under another configuration."""
