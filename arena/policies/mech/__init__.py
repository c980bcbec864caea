"""Scripted policies of the mech arena: the lieutenant and simpler ones."""
