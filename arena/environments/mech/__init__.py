"""The mech arena: two teams of mechs fight for a zone. Importing this package loads neither torch nor Warp."""
