"""Commands that open the league's database and store themselves, on the machine of the server.

Commands that ask a server are in `league.cli`.
"""
