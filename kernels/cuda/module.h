// The fatbin that holds every kernel, loaded by the driver.
#pragma once

#include "cuda/context.h"
#include "kernels/cuda/library.h"

#include <filesystem>

namespace maestro::kernels::cuda {

class Module : public Functions {
public:
  /// Where a program finds the kernels that were built with it: beside itself.
  static Result<std::filesystem::path> pathBesideProgram();
  /// Unavailable where the file cannot be read, or has nothing for this GPU. The context is current and outlives this.
  static Result<std::unique_ptr<Module>> load(const maestro::cuda::Context &context, const std::filesystem::path &path);
  ~Module() override;
  /// Of the file's bytes.
  uint64_t hash() const { return fileHash; }

  Result<CUfunction> find(const std::string &name) const override;
  Status launch(CUfunction function, Grid grid, unsigned threads, size_t sharedBytes, CUstream stream,
                void *params) const override;

private:
  Module(const maestro::cuda::Context &context, CUmodule module, uint64_t fileHash)
      : context(context), module(module), fileHash(fileHash) {}
  const maestro::cuda::Context &context;
  CUmodule module;
  uint64_t fileHash;
};

} // namespace maestro::kernels::cuda
