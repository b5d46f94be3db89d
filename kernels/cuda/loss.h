// Parameters of the losses per position: `rows` of `width` classes.
#pragma once

#include "kernels/cuda/params.h"

namespace maestro::kernels::cuda {

struct CrossEntropyParams {
  const void *logits;
  AnyTensor labels;
  float *loss, *lse;
  int64_t rows, width, ignored;
  bool packed;
  Report report;
};

struct CrossEntropyGradParams {
  const void *logits;
  AnyTensor labels, dloss;
  const float *lse;
  void *dlogits; ///< May lie over the logits.
  int64_t rows, width, ignored;
  Strided<1> spread; ///< dloss broadcast to the rows.
  bool packed;
  Report report;
};

struct KlParams {
  const void *student, *teacher;
  float *loss, *lseStudent, *lseTeacher;
  int64_t rows, width;
  float inverseTemperature;
  bool packed;
};

struct KlGradParams {
  const void *student, *teacher;
  const float *lseStudent, *lseTeacher;
  AnyTensor dloss;
  void *dstudent; ///< May lie over the student's logits.
  int64_t rows, width;
  float inverseTemperature;
  Strided<1> spread;
  bool packed;
};

} // namespace maestro::kernels::cuda
