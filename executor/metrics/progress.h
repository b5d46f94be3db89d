// Progress for people: one line that renews itself on a terminal, plain lines where output is
// piped.
#pragma once

#include "executor/metrics/step_record.h"

#include <cstdio>
#include <memory>
#include <string>

namespace maestro::metrics {

class Line;

class Progress {
public:
  enum class Style {
    Terminal, ///< One line, renewed at most ten times a second.
    Plain,    ///< A line for the first steps, then at most one every few seconds, and the last.
    Json      ///< Like Plain, each an object: --log-format json.
  };
  /// Terminal when `stream` is one and TERM is not "dumb".
  static Style detect(std::FILE *stream);

  /// `totalSteps` 0: not known. The stream stays the caller's.
  Progress(std::FILE *stream, Style style, uint64_t totalSteps);
  ~Progress(); ///< finish()

  /// Call after every step; a step with a validation is printed, and most other calls print nothing and allocate
  /// nothing. Rates are means since the line before.
  void update(const StepRecord &record, double nowSeconds);
  /// Prints the last record if it was not, then the mean rates of all steps.
  void finish();

private:
  bool isDue(double nowSeconds) const;
  void print();
  void printMeans();

  std::FILE *stream;
  Style style;
  uint64_t totalSteps;
  StepRecord last;
  uint64_t updates = 0;
  double lastPrint = 0, secondsPerStep = 0;
  struct Sums {
    uint64_t steps = 0, samples = 0, tokens = 0;
    double seconds = 0;
    void add(const StepRecord &record);
  };
  Sums sinceLine, all;
  bool pending = false, onLine = false, finished = false;
  std::unique_ptr<Line> line;
};

/// "step 12/100  loss 3.2145  lr 3.0e-04  grad 1.2  4.2k tokens/s  0.21 s/step  18 s left"
std::string formatProgress(const StepRecord &record, uint64_t totalSteps, double secondsPerStep);

} // namespace maestro::metrics
