// Errors as values. Whoever detects an error writes the message (thing, value, limit, remedy);
// callers add context with withContext(). No exception crosses a module boundary.
#pragma once

#include <cassert>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace maestro {

/// What kind of failure a Status reports; it decides the exit status of a tool.
enum class StatusCode {
  Ok,
  InvalidInput, ///< The input is at fault (file, graph, flag, data): exit status 1.
  Unavailable,  ///< The machine or a peer failed (disk, memory, worker): exit status 2.
  Internal,     ///< A defect of Maestro itself: exit status 2.
  Interrupted,  ///< Ended on the user's request: exit status 130.
};

/// The outcome of an operation that yields no value. Success costs one null pointer and never
/// allocates, so kernels may return it.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(StatusCode code, std::string message)
      : payload(std::make_unique<Payload>(Payload{code, std::move(message)})) {}

  static Status invalidInput(std::string message) { return {StatusCode::InvalidInput, std::move(message)}; }
  static Status unavailable(std::string message) { return {StatusCode::Unavailable, std::move(message)}; }
  static Status internal(std::string message) { return {StatusCode::Internal, std::move(message)}; }
  static Status interrupted(std::string message) { return {StatusCode::Interrupted, std::move(message)}; }

  bool isOk() const { return !payload; }
  StatusCode code() const { return payload ? payload->code : StatusCode::Ok; }
  std::string_view message() const { return payload ? std::string_view(payload->message) : std::string_view("ok"); }

  /// Prepends "context: " to the message of a failure; keeps success.
  Status withContext(std::string_view context) && {
    if (payload)
      payload->message.insert(0, std::string(context) + ": ");
    return std::move(*this);
  }

  /// The exit status that a tool ends with: 0, 1, 2 or 130.
  int exitStatus() const {
    switch (code()) {
    case StatusCode::Ok:
      return 0;
    case StatusCode::InvalidInput:
      return 1;
    case StatusCode::Interrupted:
      return 130;
    default:
      return 2;
    }
  }

private:
  struct Payload {
    StatusCode code;
    std::string message;
  };
  std::unique_ptr<Payload> payload;
};

/// A value or the Status that says why there is none.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : held(std::move(value)) {}
  Result(Status failure) : failure(std::move(failure)) {
    assert(!this->failure.isOk() && "a Result without a value needs a failure");
  }

  bool isOk() const { return held.has_value(); }
  explicit operator bool() const { return isOk(); }
  T &operator*() & { return *held; }
  const T &operator*() const & { return *held; }
  T &&operator*() && { return std::move(*held); }
  T *operator->() { return &*held; }
  const T *operator->() const { return &*held; }

  const Status &status() const { return failure; }
  Status takeStatus() && { return std::move(failure); }
  Result withContext(std::string_view context) && {
    if (!held)
      failure = std::move(failure).withContext(context);
    return std::move(*this);
  }

private:
  std::optional<T> held;
  Status failure;
};

} // namespace maestro

#define MAESTRO_CONCAT_IMPL(a, b) a##b
#define MAESTRO_CONCAT(a, b) MAESTRO_CONCAT_IMPL(a, b)

/// Returns from the enclosing function when `expression` (a Status) is a failure.
#define MAESTRO_TRY(expression)                                                                                        \
  do {                                                                                                                 \
    if (::maestro::Status maestroStatus = (expression); !maestroStatus.isOk())                                         \
      return maestroStatus;                                                                                            \
  } while (false)

/// MAESTRO_ASSIGN(auto plan, loadPlan(path)); unwraps a Result or returns its failure.
#define MAESTRO_ASSIGN(declaration, expression)                                                                        \
  MAESTRO_ASSIGN_IMPL(MAESTRO_CONCAT(maestroResult, __LINE__), declaration, expression)
#define MAESTRO_ASSIGN_IMPL(result, declaration, expression)                                                           \
  auto result = (expression);                                                                                          \
  if (!result.isOk())                                                                                                  \
    return std::move(result).takeStatus();                                                                             \
  declaration = std::move(*result)
