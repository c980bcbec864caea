"""Rules for members of a population: promotion, succession, retirement and call-signs. Torch-free."""
