#include "executor/metrics/progress.h"

#include "executor/metrics/line.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace maestro::metrics {
namespace {

constexpr double kTerminalInterval = 0.1; // seconds
constexpr double kPlainInterval = 5;
constexpr uint64_t kPlainFirstSteps = 3;

constexpr auto kFixed = std::chars_format::fixed;
constexpr auto kScientific = std::chars_format::scientific;
constexpr auto kGeneral = std::chars_format::general;

/// "950", "4.2k", "1.3M"
void appendCount(Line &line, double value) {
  static constexpr std::array<std::string_view, 5> kUnits = {"", "k", "M", "G", "T"};
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < kUnits.size(); ++unit)
    value /= 1000;
  line.rounded(value, kFixed, unit == 0 || value >= 99.95 ? 0 : 1) << kUnits[unit];
}

void appendTime(Line &line, double seconds) {
  auto whole = static_cast<uint64_t>(std::ceil(seconds));
  uint64_t minutes = whole % 3600 / 60;
  if (whole < 100)
    line << whole << " s";
  else if (whole < 6000)
    line << (whole + 30) / 60 << " min";
  else
    line << whole / 3600 << (minutes < 10 ? " h 0" : " h ") << minutes << " min";
}

/// Of a step of so many seconds. A model without tokens counts samples.
void appendRates(double tokens, double samples, double seconds, Line &line) {
  bool hasTokens = tokens > 0;
  appendCount(line, (hasTokens ? tokens : samples) / seconds);
  (line << (hasTokens ? " tokens/s  " : " samples/s  ")).rounded(seconds, kGeneral, 3) << " s/step";
}

void formatText(const StepRecord &record, uint64_t totalSteps, double secondsPerStep, Line &line) {
  line << "step " << record.step;
  if (totalSteps)
    line << "/" << totalSteps;
  (line << "  loss ").rounded(record.loss, kFixed, 4);
  if (record.validation)
    (line << "  validation ").rounded(record.validation->loss, kFixed, 4);
  (line << "  lr ").rounded(record.lr, kScientific, 2);
  (line << "  grad ").rounded(record.gradNorm, kGeneral, 3);
  if (record.stepSeconds > 0) {
    line << "  ";
    appendRates(static_cast<double>(record.tokens), static_cast<double>(record.samples), record.stepSeconds, line);
  }
  if (totalSteps > record.step && secondsPerStep > 0) {
    line << "  ";
    appendTime(line, static_cast<double>(totalSteps - record.step) * secondsPerStep);
    line << " left";
  }
}

void formatJson(const StepRecord &record, uint64_t totalSteps, Line &line) {
  line << "{\"level\": \"info\", \"event\": \"step\", \"step\": " << record.step;
  if (totalSteps)
    line << ", \"steps\": " << totalSteps;
  (line << ", \"loss\": ").json(record.loss);
  if (record.validation)
    (line << ", \"validation_loss\": ").json(record.validation->loss);
  (line << ", \"lr\": ").json(record.lr);
  (line << ", \"grad_norm\": ").json(record.gradNorm);
  (line << ", \"tokens\": " << record.tokens << ", \"step_seconds\": ").json(record.stepSeconds) << "}";
}
} // namespace

std::string formatProgress(const StepRecord &record, uint64_t totalSteps, double secondsPerStep) {
  Line line;
  formatText(record, totalSteps, secondsPerStep, line);
  return line.text();
}

Progress::Style Progress::detect(std::FILE *stream) {
  const char *terminal = std::getenv("TERM");
  bool canRenew = terminal && *terminal && std::string_view(terminal) != "dumb";
  return canRenew && ::isatty(::fileno(stream)) ? Style::Terminal : Style::Plain;
}

Progress::Progress(std::FILE *stream, Style style, uint64_t totalSteps)
    : stream(stream), style(style), totalSteps(totalSteps), line(std::make_unique<Line>()) {}

Progress::~Progress() { finish(); }

bool Progress::isDue(double nowSeconds) const {
  if (style == Style::Terminal)
    return updates <= 1 || nowSeconds - lastPrint >= kTerminalInterval;
  return updates <= kPlainFirstSteps || nowSeconds - lastPrint >= kPlainInterval;
}

void Progress::update(const StepRecord &record, double nowSeconds) {
  // A running mean forgets the first, slower steps.
  secondsPerStep = updates++ == 0 ? record.stepSeconds : 0.8 * secondsPerStep + 0.2 * record.stepSeconds;
  // Names and sections are not shown; copying only numbers allocates nothing.
  last.step = record.step;
  last.loss = record.loss;
  last.gradNorm = record.gradNorm;
  last.lr = record.lr;
  last.validation.reset();
  if (record.validation)
    last.validation.emplace().loss = record.validation->loss;
  sinceLine.add(record);
  all.add(record);
  pending = true;
  if (isDue(nowSeconds) || record.validation) {
    print();
    if (record.validation && onLine) // It stays to be read.
      std::fputc('\n', stream);
    lastPrint = nowSeconds;
  }
}

void Progress::Sums::add(const StepRecord &record) {
  ++steps;
  samples += record.samples;
  tokens += record.tokens;
  seconds += record.stepSeconds;
}

void Progress::print() {
  pending = false;
  last.samples = sinceLine.samples / sinceLine.steps;
  last.tokens = sinceLine.tokens / sinceLine.steps;
  last.stepSeconds = sinceLine.seconds / static_cast<double>(sinceLine.steps);
  sinceLine = {};
  line->clear();
  // Carriage return and "erase to the end of the line": the next line takes this one's place.
  onLine = style == Style::Terminal;
  *line << (onLine ? "\r" : "");
  style == Style::Json ? formatJson(last, totalSteps, *line) : formatText(last, totalSteps, secondsPerStep, *line);
  *line << (onLine ? "\x1b[K" : "\n");
  std::fwrite(line->text().data(), 1, line->text().size(), stream);
  std::fflush(stream);
}

void Progress::finish() {
  if (pending)
    print();
  if (onLine)
    std::fputc('\n', stream);
  onLine = false;
  if (!std::exchange(finished, true) && all.steps > 0)
    printMeans();
  std::fflush(stream);
}

/// Over the run: single steps are lucky or not.
void Progress::printMeans() {
  auto steps = static_cast<double>(all.steps);
  double tokens = static_cast<double>(all.tokens) / steps, samples = static_cast<double>(all.samples) / steps;
  double seconds = all.seconds / steps;
  line->clear();
  if (style == Style::Json) {
    (*line << "{\"level\": \"info\", \"event\": \"run\", \"steps\": " << all.steps << ", \"step_seconds\": ")
        .json(seconds);
    (*line << ", \"tokens_per_second\": ").json(tokens / seconds);
    (*line << ", \"samples_per_second\": ").json(samples / seconds) << "}\n";
  } else {
    *line << all.steps << (all.steps == 1 ? " step in " : " steps in ");
    line->rounded(all.seconds, kGeneral, 3) << " s: ";
    appendRates(tokens, samples, seconds, *line);
    *line << " in the mean\n";
  }
  std::fwrite(line->text().data(), 1, line->text().size(), stream);
}

} // namespace maestro::metrics
