#include "base/log.h"

#include <cstdio>
#include <mutex>

namespace maestro {
namespace {
LogFormat format = LogFormat::Text;
bool quiet = false;
std::mutex lineMutex;

std::string_view name(LogLevel level) {
  switch (level) {
  case LogLevel::Info:
    return "info";
  case LogLevel::Warning:
    return "warning";
  case LogLevel::Error:
    return "error";
  }
  return "error";
}
} // namespace

void setLogFormat(LogFormat value) { format = value; }
void setLogQuiet(bool value) { quiet = value; }
LogFormat logFormat() { return format; }

void log(LogLevel level, std::string_view message) {
  if (quiet && level == LogLevel::Info)
    return;
  std::string line;
  if (format == LogFormat::Json) {
    line.append("{\"level\": \"").append(name(level)).append("\", \"message\": \"");
    line.append(escapeJson(message)).append("\"}\n");
  } else {
    if (level != LogLevel::Info)
      line.append(name(level)).append(": ");
    line.append(message).append("\n");
  }
  std::lock_guard lock(lineMutex);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

std::string escapeJson(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (char c : text) {
    switch (c) {
    case '"':
      escaped += "\\\"";
      break;
    case '\\':
      escaped += "\\\\";
      break;
    case '\n':
      escaped += "\\n";
      break;
    case '\t':
      escaped += "\\t";
      break;
    default:
      if (static_cast<unsigned char>(c) < 0x20) {
        char code[8];
        std::snprintf(code, sizeof code, "\\u%04x", c);
        escaped += code;
      } else {
        escaped += c;
      }
    }
  }
  return escaped;
}

} // namespace maestro
