"""The rule of promotion, and which players are redundant by how they play.

Changing a standing is in `lifecycle`.
"""
