"""C++ sources of the CPU kernels, each tested against the equivalent PyTorch code.

`nn/native_lstm.py` and `ensemble/native_backend.py` call them; compiling and launching is in `arena.native.warp`.
"""
