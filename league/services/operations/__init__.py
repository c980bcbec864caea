"""A league as a whole: exported, imported, forked, checked, pruned and counted."""
