"""Playing matches between policies: runner, paired series, tournaments, recording and throughput."""
