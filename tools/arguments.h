// What the tools' command lines have in common: errors that read like all others, whole numbers that do not wrap.
#pragma once

#include "base/log.h"
#include "base/nearest.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace maestro {

/// What is said of the first option that nothing reads; "" where there is none.
inline std::string unknownOption(const CLI::App &app) {
  for (const std::string &extra : app.remaining()) {
    if (!extra.starts_with("-"))
      continue;
    std::string name = extra.substr(0, extra.find('='));
    std::vector<std::string> known;
    for (const CLI::Option *option : app.get_options())
      for (const std::string &text : option->get_lnames())
        known.push_back("--" + text);
    return "unknown option '" + name + "'" + didYouMean(name, known) + "; see " + app.get_name() + " --help";
  }
  return "";
}

/// Exit status of a command line that did not parse, after its one message; help and version are no errors.
inline int endParsing(const CLI::App &app, const CLI::ParseError &error) {
  if (error.get_exit_code() == 0)
    return app.exit(error);
  if (std::string unknown = unknownOption(app); !unknown.empty()) {
    logError(unknown);
    return 1;
  }
  logError(std::string(error.what()) + "; see " + app.get_name() + " --help");
  return 1;
}

inline std::string wholeNumberFrom(char least, const std::string &text) {
  bool digits = !text.empty() && text.size() <= 19 &&
                std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (digits && (text.size() > 1 || text[0] >= least))
    return {};
  return "'" + text + "' is no whole number from " + least + " to 9999999999999999999";
}

/// For CLI::Option::check(): digits alone (CLI11 takes -1 for 2^64 - 1), '0' or '1' at least.
template <char least> std::string wholeNumber(const std::string &text) { return wholeNumberFrom(least, text); }

} // namespace maestro
