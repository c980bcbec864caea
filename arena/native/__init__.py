"""Native code: NVIDIA Warp launches, structs that share memory with tensors, and random numbers in kernels."""
