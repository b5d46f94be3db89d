#include "executor/metrics/progress.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <unistd.h>

namespace maestro::metrics {
namespace {

constexpr double kTerminalInterval = 0.1; // seconds
constexpr double kPlainInterval = 5;
constexpr uint64_t kPlainFirstSteps = 3;

/// Holds a line without heap memory: printing is part of the step loop.
using Buffer = fmt::memory_buffer;

template <typename... Values>
void append(Buffer &buffer, fmt::format_string<Values...> format, Values &&...values) {
  fmt::format_to(fmt::appender(buffer), format, std::forward<Values>(values)...);
}

/// "950", "4.2k", "1.3M"
void appendCount(Buffer &buffer, double value) {
  static constexpr std::array<std::string_view, 5> kUnits = {"", "k", "M", "G", "T"};
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < kUnits.size(); ++unit)
    value /= 1000;
  int digits = unit == 0 || value >= 99.95 ? 0 : 1;
  append(buffer, "{:.{}f}{}", value, digits, kUnits[unit]);
}

void appendTime(Buffer &buffer, double seconds) {
  auto whole = static_cast<uint64_t>(std::ceil(seconds));
  if (whole < 100)
    append(buffer, "{} s", whole);
  else if (whole < 6000)
    append(buffer, "{} min", (whole + 30) / 60);
  else
    append(buffer, "{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

void formatText(const StepRecord &record, uint64_t totalSteps, double secondsPerStep,
                Buffer &buffer) {
  append(buffer, "step {}", record.step);
  if (totalSteps)
    append(buffer, "/{}", totalSteps);
  append(buffer, "  loss {:.4f}  lr {:.2e}  grad {:.3g}", record.loss, record.lr, record.gradNorm);
  if (record.stepSeconds > 0) {
    bool hasTokens = record.tokens > 0; // A model without tokens counts samples.
    append(buffer, "  ");
    appendCount(buffer, static_cast<double>(hasTokens ? record.tokens : record.samples) /
                            record.stepSeconds);
    append(buffer, " {}/s  {:.3g} s/step", hasTokens ? "tokens" : "samples", record.stepSeconds);
  }
  if (totalSteps > record.step && secondsPerStep > 0) {
    append(buffer, "  ");
    appendTime(buffer, static_cast<double>(totalSteps - record.step) * secondsPerStep);
    append(buffer, " left");
  }
}

void appendMember(Buffer &buffer, std::string_view key, double value) {
  if (std::isfinite(value))
    append(buffer, ", \"{}\": {}", key, value);
  else
    append(buffer, ", \"{}\": null", key);
}

void formatJson(const StepRecord &record, uint64_t totalSteps, Buffer &buffer) {
  append(buffer, "{{\"level\": \"info\", \"event\": \"step\", \"step\": {}", record.step);
  if (totalSteps)
    append(buffer, ", \"steps\": {}", totalSteps);
  appendMember(buffer, "loss", record.loss);
  appendMember(buffer, "lr", record.lr);
  appendMember(buffer, "grad_norm", record.gradNorm);
  append(buffer, ", \"tokens\": {}", record.tokens);
  appendMember(buffer, "step_seconds", record.stepSeconds);
  append(buffer, "}}");
}
} // namespace

std::string formatProgress(const StepRecord &record, uint64_t totalSteps, double secondsPerStep) {
  Buffer buffer;
  formatText(record, totalSteps, secondsPerStep, buffer);
  return fmt::to_string(buffer);
}

Progress::Style Progress::detect(std::FILE *stream) {
  const char *terminal = std::getenv("TERM");
  bool canRenew = terminal && *terminal && std::string_view(terminal) != "dumb";
  return canRenew && ::isatty(::fileno(stream)) ? Style::Terminal : Style::Plain;
}

Progress::Progress(std::FILE *stream, Style style, uint64_t totalSteps)
    : stream(stream), style(style), totalSteps(totalSteps) {}

Progress::~Progress() { finish(); }

bool Progress::isDue(double nowSeconds) const {
  if (style == Style::Terminal)
    return updates <= 1 || nowSeconds - lastPrint >= kTerminalInterval;
  return updates <= kPlainFirstSteps || nowSeconds - lastPrint >= kPlainInterval;
}

void Progress::update(const StepRecord &record, double nowSeconds) {
  // A running mean forgets the first, slower steps.
  secondsPerStep =
      updates++ == 0 ? record.stepSeconds : 0.8 * secondsPerStep + 0.2 * record.stepSeconds;
  // Names and sections are not shown; copying only numbers allocates nothing.
  last.step = record.step;
  last.loss = record.loss;
  last.gradNorm = record.gradNorm;
  last.lr = record.lr;
  last.samples = record.samples;
  last.tokens = record.tokens;
  last.stepSeconds = record.stepSeconds;
  pending = true;
  if (isDue(nowSeconds)) {
    print();
    lastPrint = nowSeconds;
  }
}

void Progress::print() {
  pending = false;
  Buffer line;
  // Carriage return and "erase to the end of the line": the next line takes this one's place.
  onLine = style == Style::Terminal;
  if (onLine)
    append(line, "\r");
  style == Style::Json ? formatJson(last, totalSteps, line)
                       : formatText(last, totalSteps, secondsPerStep, line);
  append(line, "{}", onLine ? "\x1b[K" : "\n");
  std::fwrite(line.data(), 1, line.size(), stream);
  std::fflush(stream);
}

void Progress::finish() {
  if (pending)
    print();
  if (onLine)
    std::fputc('\n', stream);
  std::fflush(stream);
  onLine = false;
}

} // namespace maestro::metrics
