"""The PPO loss and its gradient as one C++ kernel for the CPU, equal to the plain loss."""
