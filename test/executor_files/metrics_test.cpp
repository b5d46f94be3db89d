#include "executor/metrics/event_file.h"
#include "executor/metrics/metrics_file.h"
#include "executor/metrics/progress.h"

#include "scratch_folder.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace maestro::metrics {
namespace {
using nlohmann::json;
using test::ScratchFolder;
using ::testing::HasSubstr;

StepRecord record(uint64_t step) {
  return {.step = step,
          .loss = 2.5,
          .losses = {{"cross_entropy", 3.0}, {"kl \"2\"", 2.0}},
          .gradNorm = 0.125,
          .lr = 3e-4,
          .samples = 64,
          .tokens = 4096,
          .tokensSeen = 12288,
          .unixSeconds = 1'700'000'000.125,
          .dataBytes = 32768,
          .stepSeconds = 0.25,
          .peakBytes = 1'000'000,
          .predictedStepSeconds = 0.2,
          .scheduleSeconds = 0.001,
          .sections = {{"student", 0.2, 0.05, 8}},
          .devices = {{0.21, 0.04}}};
}

TEST(MetricsTest, aLineHasEveryField) {
  json line = json::parse(formatMetrics(record(3)));
  EXPECT_EQ(line, json::parse(
                      R"({"step": 3, "loss": 2.5, "losses": {"cross_entropy": 3.0, "kl \"2\"": 2.0},
    "grad_norm": 0.125, "lr": 3e-4, "applied": true, "samples": 64, "tokens": 4096, "data_bytes": 32768,
    "tokens_seen": 12288, "time": 1700000000.125, "step_seconds": 0.25,
    "peak_bytes": 1000000,
    "predicted_step_seconds": 0.2, "schedule_seconds": 0.001, "sections": {"student": {"busy": 0.2, "idle": 0.05, "microbatches": 8}},
    "devices": [{"busy": 0.21, "idle": 0.04}], "edges": {}})"));
}

TEST(MetricsTest, whatRanksToldEachOther) {
  StepRecord several = record(3);
  several.edges = {{"teacher.logits", 4096, 0}, {"vision.features", 64, 32}};
  several.network = {{1, 5000, 0.25}};
  json line = json::parse(formatMetrics(several));
  EXPECT_EQ(line["edges"], json::parse(R"({"teacher.logits": {"bytes": 4096, "gradient_bytes": 0},
                                           "vision.features": {"bytes": 64, "gradient_bytes": 32}})"));
  EXPECT_EQ(line["network"], json::parse(R"([{"process": 1, "bytes": 5000, "busy": 0.25}])"));
}

TEST(MetricsTest, aValidationStandsBesideItsStep) {
  StepRecord validated = record(3);
  validated.validation = {2.0, {{"cross_entropy", 2.0}}, 21, 500, 0.5};
  json line = json::parse(formatMetrics(validated));
  EXPECT_EQ(
      line["validation"],
      json::parse(R"({"loss": 2.0, "losses": {"cross_entropy": 2.0}, "samples": 21, "tokens": 500, "seconds": 0.5})"));
  EXPECT_THAT(formatProgress(validated, 100, 0.25), HasSubstr("loss 2.5000  validation 2.0000  lr"));
  EXPECT_FALSE(json::parse(formatMetrics(record(3))).contains("validation"));
}

TEST(MetricsTest, numbersKeepEveryDigitOrBecomeNull) {
  StepRecord odd = record(1);
  odd.loss = 0.1 + 0.2;
  odd.gradNorm = NAN;
  odd.lr = INFINITY;
  json line = json::parse(formatMetrics(odd));
  EXPECT_EQ(line["loss"].get<double>(), 0.1 + 0.2);
  EXPECT_TRUE(line["grad_norm"].is_null());
  EXPECT_TRUE(line["lr"].is_null());
}

std::vector<uint64_t> steps(const std::string &path) {
  std::vector<uint64_t> found;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    found.push_back(json::parse(line)["step"]);
  return found;
}

TEST(EventFileTest, checksumsAreCastagnolis) { // RFC 3720, B.4.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
}

TEST(EventFileTest, aFolderThatCannotBeMadeIsNamed) {
  ScratchFolder folder;
  std::string file = folder.write("file", "");
  auto events = EventFile::create(file + "/tensorboard", 0);
  ASSERT_FALSE(events.isOk());
  EXPECT_THAT(events.status().message(), HasSubstr(file + "/tensorboard"));
}

TEST(MetricsTest, aResumedRunContinuesTheFile) {
  ScratchFolder folder;
  std::string path = folder.file("metrics.jsonl");
  {
    auto file = MetricsFile::open(path, 0);
    ASSERT_TRUE(file.isOk());
    for (uint64_t step = 1; step <= 500; ++step)
      ASSERT_TRUE((*file)->append(record(step)).isOk());
  }
  std::ofstream(path, std::ios::app) << "{\"step\": 501, \"lo"; // Killed while it wrote.
  {
    auto file = MetricsFile::open(path, 499);
    ASSERT_TRUE(file.isOk());
    ASSERT_TRUE((*file)->append(record(500)).isOk());
  }
  std::vector<uint64_t> all = steps(path);
  ASSERT_EQ(all.size(), 500u);
  EXPECT_EQ(all.back(), 500u);
  { auto file = MetricsFile::open(path, 1000); }
  EXPECT_EQ(steps(path).size(), 500u);
  { auto file = MetricsFile::open(path, 0); }
  EXPECT_TRUE(steps(path).empty());
}

TEST(MetricsTest, afterForeignTextNothingIsKept) {
  ScratchFolder folder;
  std::string path =
      folder.write("metrics.jsonl", formatMetrics(record(1)) + "\nnot ours\n" + formatMetrics(record(2)) + "\n");
  { auto file = MetricsFile::open(path, 10); }
  EXPECT_THAT(steps(path), ::testing::ElementsAre(1));
  EXPECT_EQ(MetricsFile::open(folder.file("no/where"), 0).status().code(), StatusCode::Unavailable);
}

/// What `body` prints.
template <typename Body> std::string printed(Body body) {
  ScratchFolder folder;
  std::FILE *stream = std::fopen(folder.file("out").c_str(), "w");
  body(stream);
  std::fclose(stream);
  return test::readFile(folder.file("out"));
}

size_t count(const std::string &text, char c) { return static_cast<size_t>(std::count(text.begin(), text.end(), c)); }

TEST(ProgressTest, saysWhatPeopleWantToKnow) {
  EXPECT_EQ(formatProgress(record(12), 100, 0.25),
            "step 12/100  loss 2.5000  lr 3.00e-04  grad 0.125  16.4k tokens/s  0.25 s/step  22 s left");
  StepRecord images = record(100);
  images.tokens = 0;
  EXPECT_EQ(formatProgress(images, 0, 0.25),
            "step 100  loss 2.5000  lr 3.00e-04  grad 0.125  256 samples/s  0.25 s/step");
  EXPECT_THAT(formatProgress(record(1), 100'000, 0.25), HasSubstr("6 h 56 min left"));
  EXPECT_THAT(formatProgress(record(1), 1000, 1), HasSubstr("17 min left"));
}

TEST(ProgressTest, renewsOneLineOnATerminal) {
  std::string text = printed([](std::FILE *stream) {
    Progress progress(stream, Progress::Style::Terminal, 1000);
    for (int i = 1; i <= 1000; ++i)
      progress.update(record(static_cast<uint64_t>(i)), i * 0.001);
  });
  EXPECT_EQ(count(text, '\n'), 2u);
  EXPECT_GE(count(text, '\r'), 10u);
  EXPECT_LE(count(text, '\r'), 13u);
  EXPECT_THAT(text, HasSubstr("step 1000/1000"));
}

TEST(ProgressTest, isSparseWhenPiped) {
  std::string text = printed([](std::FILE *stream) {
    Progress progress(stream, Progress::Style::Plain, 0);
    for (int i = 1; i <= 1000; ++i)
      progress.update(record(static_cast<uint64_t>(i)), i * 0.01);
  });
  EXPECT_EQ(count(text, '\r') + count(text, '\x1b'), 0u);
  EXPECT_THAT(text, HasSubstr("step 1000 "));
  EXPECT_GE(count(text, '\n'), 5u);
  EXPECT_LE(count(text, '\n'), 7u);
}

TEST(ProgressTest, ratesAreMeans) {
  std::string text = printed([](std::FILE *stream) {
    Progress progress(stream, Progress::Style::Plain, 0);
    for (int i = 1; i <= 100; ++i) {
      StepRecord uneven = record(static_cast<uint64_t>(i));
      uneven.stepSeconds = i == 100 ? 1e-7 : 0.25; // The last step was done before anybody looked.
      progress.update(uneven, i * 0.01);
    }
  });
  EXPECT_THAT(text, HasSubstr("step 100  loss 2.5000  lr 3.00e-04  grad 0.125  16.6k tokens/s  0.247 s/step\n"));
  EXPECT_THAT(text, HasSubstr("100 steps in 24.8 s: 16.5k tokens/s  0.248 s/step in the mean\n"));
}

TEST(ProgressTest, speaksJsonToMachines) {
  std::string text = printed([](std::FILE *stream) {
    Progress progress(stream, Progress::Style::Json, 2);
    StepRecord diverged = record(1);
    diverged.loss = NAN;
    progress.update(diverged, 0);
    progress.update(record(2), 0.001);
  });
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  EXPECT_TRUE(json::parse(line)["loss"].is_null());
  std::getline(lines, line);
  EXPECT_EQ(json::parse(line)["step"], 2);
  std::getline(lines, line);
  EXPECT_EQ(json::parse(line)["event"], "run");
  EXPECT_EQ(json::parse(line)["steps"], 2);
}

TEST(MetricsTest, saysWhichSamplesWereBad) {
  EXPECT_EQ(json::parse(formatMetrics(record(3)))["applied"], true);
  EXPECT_FALSE(json::parse(formatMetrics(record(3))).contains("bad_samples"));
  StepRecord bad = record(4);
  bad.loss = NAN;
  bad.applied = false;
  bad.badSamples = {{"a/0007", "part \"0\".tar"}, {"synthetic/1", ""}};
  json line = json::parse(formatMetrics(bad));
  EXPECT_EQ(line["applied"], false);
  EXPECT_EQ(line["bad_samples"][0]["key"], "a/0007");
  EXPECT_EQ(line["bad_samples"][0]["shard"], "part \"0\".tar");
  EXPECT_EQ(line["bad_samples"].size(), 2u);
}

} // namespace
} // namespace maestro::metrics
