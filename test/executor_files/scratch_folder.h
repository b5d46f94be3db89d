// A folder of a test's own, and files in it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

namespace maestro::test {

class ScratchFolder {
public:
  ScratchFolder() {
    std::string name = std::filesystem::temp_directory_path() / "maestro-test-XXXXXX";
    path = ::mkdtemp(name.data());
  }
  ~ScratchFolder() { std::filesystem::remove_all(path); }
  ScratchFolder(const ScratchFolder &) = delete;

  std::string file(std::string_view name) const { return path + "/" + std::string(name); }
  std::string write(std::string_view name, std::string_view content) const {
    std::ofstream(file(name), std::ios::binary) << content;
    return file(name);
  }

  std::string path;
};

inline std::string readFile(const std::string &path) {
  std::stringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return content.str();
}

} // namespace maestro::test
