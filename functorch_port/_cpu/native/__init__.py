"""Machine code: kernels by llvmlite and oneDNN, which XLA's programs call."""
