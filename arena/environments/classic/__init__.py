"""Small games with known answers: matrix games and the memory probe."""
