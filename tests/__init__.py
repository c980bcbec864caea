"""Tests of the project; a package, so that no other distribution with a folder `tests` takes its place."""
