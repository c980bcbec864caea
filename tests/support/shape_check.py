"""The run-time checker of annotated shapes; an int may stand where a float is asked for, as PEP 484 says."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
