"""Rules about a population's members: promotion of snapshots and their call-signs. Torch-free."""
