"""What the scripted players of the mech arena are made of: what they heed, where they go, whom they fire at."""
