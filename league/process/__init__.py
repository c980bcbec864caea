"""Process supervision: start, monitor, restart and stop child processes, independent of the league."""
