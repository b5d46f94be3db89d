// Drives a fuzz target without libFuzzer, in builds by any compiler: every seed, its prefixes, and
// thousands of mutations of it that are the same in every run. A crash or a sanitizer's report
// fails the test.
//
//   replay_npy SEED_FOLDER [MUTATIONS]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
/// Of targets that have one: mutations that know the format, every other time.
extern "C" __attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t most,
                                                                unsigned seed);

namespace {
using Bytes = std::vector<uint8_t>;

Bytes readFile(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

void run(const Bytes &bytes) { LLVMFuzzerTestOneInput(bytes.data(), bytes.size()); }

/// Some bytes changed, and now and then a piece moved.
Bytes mutate(Bytes bytes, std::mt19937_64 &random) {
  static constexpr uint8_t kOdd[] = {0x00, 0xff, 0x7f, 0x80, '0', '9', '-', '(', '{', '"'};
  if (bytes.empty())
    return bytes;
  if (LLVMFuzzerCustomMutator && random() % 2) {
    size_t size = bytes.size();
    bytes.resize(2 * size + 4096);
    bytes.resize(LLVMFuzzerCustomMutator(bytes.data(), size, bytes.size(), static_cast<unsigned>(random())));
    return bytes;
  }
  for (uint64_t i = 0, count = 1 + random() % 4; i < count; ++i)
    bytes[random() % bytes.size()] = random() % 2 ? kOdd[random() % sizeof kOdd] : static_cast<uint8_t>(random());
  if (random() % 4 == 0) {
    auto middle = bytes.begin() + static_cast<long>(random() % bytes.size());
    std::rotate(bytes.begin() + static_cast<long>(random() % static_cast<uint64_t>(middle - bytes.begin() + 1)), middle,
                bytes.end());
  }
  return bytes;
}
} // namespace

int main(int argc, char **argv) {
  if (argc < 2)
    return 1;
  uint64_t mutations = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 3000;
  std::vector<std::filesystem::path> seeds;
  for (const auto &entry : std::filesystem::directory_iterator(argv[1]))
    seeds.push_back(entry.path());
  std::sort(seeds.begin(), seeds.end());
  std::mt19937_64 random(1);
  uint64_t inputs = 0;
  for (const std::filesystem::path &seed : seeds) {
    Bytes whole = readFile(seed);
    size_t stride = std::max<size_t>(1, whole.size() / 500);
    for (size_t length = 0; length < whole.size(); length += stride, ++inputs)
      run(Bytes(whole.begin(), whole.begin() + static_cast<long>(length)));
    run(whole);
    for (uint64_t i = 0; i < mutations; ++i)
      run(mutate(whole, random));
    inputs += mutations + 1;
  }
  std::printf("%llu inputs from %zu seeds\n", static_cast<unsigned long long>(inputs), seeds.size());
  return seeds.empty() ? 1 : 0;
}
