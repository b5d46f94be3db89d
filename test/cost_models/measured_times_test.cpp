// What is predicted of a data sheet lies near what was measured on such a device (bench/accelerator_times.py wrote the
// files). The model's numbers were taken from the H200's; the H100's were not looked at.
#include "cost_models/devices.h"
#include "cost_models/operator_time.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

namespace maestro::cost_models {
namespace {

/// Predicted ÷ measured of each call, by kernel.
std::map<std::string, std::vector<double>> ratios(const std::string &path, const DeviceModel &device) {
  std::map<std::string, std::vector<double>> byKernel;
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string kernel, type;
    KernelWork work;
    double microseconds = 0;
    if (line.starts_with("#") || line.starts_with("layer") || line.starts_with("call"))
      continue;
    fields >> kernel >> type >> work.m >> work.n >> work.k >> work.batch >> work.flops.value >> work.bytes.value >>
        microseconds;
    EXPECT_TRUE(fields && microseconds > 0) << line;
    std::replace(kernel.begin(), kernel.end(), '_', ' '); // Names of the file are one word.
    std::string name = kernel.starts_with("attention grad") ? "attention_grad" + kernel.substr(14) : kernel;
    std::string library =
        name.substr(name.find_last_of(' ') + 1); // Of attention, where the last word is not the kernel's.
    std::string alone = library == "cudnn" || library == "flash" ? name.substr(0, name.find_last_of(' ')) : name;
    work.kernel = alone;
    work.bf16 = type == "bf16";
    byKernel[name].push_back(operatorTime(work, device).time.value / (microseconds * 1e-6));
  }
  return byKernel;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct MeasuredDevice {
  const char *name; ///< Of a built-in device.
  const char *file; ///< In this folder.
};

class MeasuredTimes : public testing::TestWithParam<MeasuredDevice> {};

TEST_P(MeasuredTimes, AreWhatDataSheetsPredict) {
  auto byKernel =
      ratios(std::string(MAESTRO_SOURCE_DIR "/test/cost_models/") + GetParam().file, *builtInDevice(GetParam().name));
  for (const auto &[kernel, values] : byKernel)
    fmt::print("{:28} {:4} calls, predicted ÷ measured: {:.2f} to {:.2f}, median {:.2f}\n", kernel, values.size(),
               *std::min_element(values.begin(), values.end()), *std::max_element(values.begin(), values.end()),
               median(values));
  for (const char *product : {"matmul", "matmul transposed"}) {
    ASSERT_GT(byKernel[product].size(), 50u);
    EXPECT_NEAR(median(byKernel[product]), 1, 0.05) << product;
  }
  for (const char *attention :
       {"attention cudnn", "attention_grad cudnn", "attention causal cudnn", "attention_grad causal cudnn"}) {
    ASSERT_EQ(byKernel[attention].size(), 7u);
    EXPECT_NEAR(median(byKernel[attention]), 1, 0.2) << attention;
    for (double ratio : byKernel[attention])
      EXPECT_NEAR(std::log(ratio), 0, std::log(1.8)) << attention;
  }
  for (const char *stream : {"copy", "add"}) {
    ASSERT_GT(byKernel[stream].size(), 5u);
    EXPECT_NEAR(median(byKernel[stream]), 1, 0.15) << stream;
  }
}

INSTANTIATE_TEST_SUITE_P(Accelerators, MeasuredTimes,
                         testing::Values(MeasuredDevice{"h200", "h200_times.txt"},
                                         MeasuredDevice{"h100-sxm", "h100_times.txt"}),
                         [](const auto &info) { return std::string(info.param.name).substr(0, 4); });

} // namespace
} // namespace maestro::cost_models
