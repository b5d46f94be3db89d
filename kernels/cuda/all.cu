// Everything that nvcc compiles, in one file: the fatbin is one module.
#include "kernels/cuda/elementwise.cu"
#include "kernels/cuda/loss.cu"
#include "kernels/cuda/norm.cu"
#include "kernels/cuda/position.cu"
#include "kernels/cuda/softmax.cu"
#include "kernels/cuda/update.cu"
