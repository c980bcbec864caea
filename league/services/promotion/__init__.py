"""Rules of promotion, redundancy and behaviour profiles; transitions of standings are in `lifecycle`."""
