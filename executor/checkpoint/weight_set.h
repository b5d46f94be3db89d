// The weights of one component as a user names them: one safetensors file, or several with an index.
#pragma once

#include "base/status.h"
#include "executor/checkpoint/safetensors.h"

#include <string>
#include <string_view>
#include <vector>

namespace maestro::checkpoint {

class WeightSet {
public:
  /// What base/weights_location.h finds of the component at `path`. The index is untrusted like the files: each tensor
  /// lies where it says, no tensor lies in two files, and no file in another folder.
  static Result<WeightSet> open(const std::string &path, std::string_view component = {});

  struct Place {
    const SafetensorsFile *file = nullptr; ///< Null: no such tensor.
    const TensorInfo *tensor = nullptr;
  };
  /// A tensor, also by a name that __metadata__ ties to the one under which it is stored. Valid while
  /// the set lives.
  Place findTied(std::string_view name) const;

  /// All tensors' names, for messages.
  std::vector<std::string> tensorNames() const;

  const std::string &name() const { return path; }

private:
  Status openIndex();

  std::string path; ///< As found: a file, or an index.
  std::vector<SafetensorsFile> files;
};

} // namespace maestro::checkpoint
