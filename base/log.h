// Messages for people (on stderr, plain when piped) or for machines (--log-format json, one object a line).
#pragma once

#include <string>
#include <string_view>

namespace maestro {

enum class LogFormat { Text, Json };
enum class LogLevel { Info, Warning, Error };

/// Process-wide settings, set once by a tool's main before other threads start.
void setLogFormat(LogFormat format);
void setLogQuiet(bool quiet); ///< Info is dropped; warnings and errors stay.
LogFormat logFormat();

/// Writes one line to stderr. Thread-safe; a line is never torn.
void log(LogLevel level, std::string_view message);
inline void logInfo(std::string_view message) { log(LogLevel::Info, message); }
inline void logWarning(std::string_view message) { log(LogLevel::Warning, message); }
inline void logError(std::string_view message) { log(LogLevel::Error, message); }

/// `text` as the inside of a JSON string (quotes, backslashes, control characters escaped).
std::string escapeJson(std::string_view text);

} // namespace maestro
