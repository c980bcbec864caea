"""Tables, durations and progress as commands print them, for people and as JSON."""
