// A GPU of this machine and its context, which all ranks of a process on that GPU share.
#pragma once

#include "cuda/driver.h"

#include <memory>
#include <string>

namespace maestro::cuda {

class Context {
public:
  /// How many GPUs this machine has: at least one, or Unavailable. Initialises the driver, as open() does.
  static Result<int> count();
  /// Initialises the driver, so the process may not fork afterwards. Unavailable where there is no such GPU, or it is
  /// in use by somebody who has it alone.
  static Result<std::unique_ptr<Context>> open(int ordinal);
  ~Context();
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;

  const Driver &driver() const { return functions; }
  CUdevice device() const { return handle; }
  /// "GPU 0 (NVIDIA H100 80GB HBM3)"
  const std::string &name() const { return text; }
  /// "NVIDIA H100 80GB HBM3"
  std::string model() const { return text.substr(text.find('(') + 1, text.size() - text.find('(') - 2); }
  /// 0 where the GPU does not know it.
  int attribute(CUdevice_attribute what) const;

  /// Of the calling thread, before its first call that needs one. Costs nothing where it is current already.
  void makeCurrent() const {
    if (current != context)
      setCurrent();
  }

private:
  Context(const Driver &driver, CUdevice device, std::string name)
      : functions(driver), handle(device), text(std::move(name)) {}
  void setCurrent() const;

  static inline thread_local CUcontext current = nullptr;
  const Driver &functions;
  CUdevice handle;
  std::string text;
  CUcontext context = nullptr;
};

} // namespace maestro::cuda
