// The operators' generated definitions; what is written by hand lies in the files beside.
#include "ir/nn/nn.h"

#define GET_OP_CLASSES
#include "ir/nn/nn_ops.cpp.inc"
