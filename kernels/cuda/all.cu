// Everything that nvcc compiles, in one file: the fatbin is one module.
#include "kernels/cuda/elementwise.cu"
#include "kernels/cuda/queue.cu"
