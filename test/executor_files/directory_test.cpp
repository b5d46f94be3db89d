#include "executor/checkpoint/directory.h"

#include "executor/checkpoint/run_folder.h"
#include "executor/checkpoint/safetensors.h"
#include "scratch_folder.h"

#include <gmock/gmock.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace maestro::checkpoint {
namespace {
namespace fs = std::filesystem;
using test::ScratchFolder;
using ::testing::HasSubstr;

TrainingState state(uint64_t seed = 3) {
  return {.position = {.pass = 1, .shard = 2, .sample = 3, .ordinal = 4},
          .seed = seed,
          .planHash = 0xfedcba9876543210,
          .workloadHash = 7,
          .frozen = {{"teacher", "teacher \"large\".onnx"}},
          .skippedSteps = 5,
          .badStepsInARow = 2,
          .run = "r1",
          .data = data::DataIdentity{.shuffled = true, .shards = {{"a \"b\".tar", 17}, {"c.tar", 18}}},
          .best = BestLoss{"kl", 0.1, 40, 2},
          .device = {{"gpu", "a \"GPU\""}, {"cudnn", "9.26.0"}}};
}

/// Writes a checkpoint with one tensor of `count` floats.
Status save(const std::string &out, uint64_t step, size_t count, uint64_t seed = 3) {
  MAESTRO_ASSIGN(PendingCheckpoint pending, PendingCheckpoint::begin(out, step));
  TensorInfo tensor{.name = "w", .dtype = DType::F32, .shape = {static_cast<int64_t>(count)}, .offset = 0, .bytes = 0};
  MAESTRO_ASSIGN(auto writer, SafetensorsWriter::create(pending.file("model.safetensors"), std::span(&tensor, 1), {}));
  std::vector<float> values(count, 1.0f);
  MAESTRO_TRY(writer.append(std::as_bytes(std::span(values))));
  MAESTRO_TRY(writer.finish());
  return pending.commit(state(seed));
}

std::vector<std::string> entries(const std::string &folder) {
  std::vector<std::string> names;
  for (const auto &entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(CheckpointTest, savesAndFindsTheNewest) {
  ScratchFolder folder;
  std::string out = folder.file("a/run");
  ASSERT_TRUE(save(out, 50, 10).isOk());
  ASSERT_TRUE(save(out, 1000000, 10).isOk());
  EXPECT_THAT(entries(out), ::testing::ElementsAre("checkpoint-000050", "checkpoint-1000000"));
  auto found = findNewestCheckpoint(out);
  ASSERT_TRUE(found.isOk() && found->has_value());
  const FoundCheckpoint &newest = **found;
  EXPECT_EQ(newest.path, out + "/checkpoint-1000000");
  EXPECT_EQ(newest.state.step, 1000000u);
  EXPECT_EQ(newest.state.position, state().position);
  EXPECT_EQ(newest.state.planHash, 0xfedcba9876543210u);
  EXPECT_EQ(newest.state.frozen, state().frozen);
  EXPECT_EQ(newest.state.skippedSteps, 5u);
  EXPECT_EQ(newest.state.badStepsInARow, 2u);
  ASSERT_TRUE(newest.state.best);
  EXPECT_EQ(newest.state.best->name, "kl");
  EXPECT_EQ(newest.state.best->value, 0.1);
  EXPECT_EQ(newest.state.best->step, 40u);
  EXPECT_EQ(newest.state.best->withoutGain, 2u);
  EXPECT_EQ(newest.state.device, state().device);
  EXPECT_EQ(newest.state.run, "r1");
  EXPECT_EQ(data::differenceOf(*newest.state.data, *state().data), "");
  EXPECT_TRUE(newest.files.contains("model.safetensors"));
}

TEST(FileWriterTest, aFileThatIsNotFinishedIsNotThere) {
  ScratchFolder folder;
  std::string path = folder.file("half");
  {
    auto writer = FileWriter::create(path);
    ASSERT_TRUE(writer.isOk());
    ASSERT_TRUE(writer->append("half").isOk());
    EXPECT_TRUE(fs::exists(path));
  }
  EXPECT_FALSE(fs::exists(path));
  {
    auto writer = FileWriter::create(path);
    ASSERT_TRUE(writer.isOk());
    ASSERT_TRUE(writer->append("whole").isOk());
    ASSERT_TRUE(writer->finish().isOk());
  }
  EXPECT_EQ(fs::file_size(path), 5u);
  fs::create_symlink("/dev/null", folder.file("device"));
  ASSERT_TRUE(FileWriter::create(folder.file("device")).isOk());
  EXPECT_TRUE(fs::exists(folder.file("device"))); // A device is never removed.
}

TEST(CheckpointTest, aRunWithoutCheckpointsHasNone) {
  ScratchFolder folder;
  fs::create_directory(folder.file("checkpoint-x"));
  auto found = findNewestCheckpoint(folder.path);
  ASSERT_TRUE(found.isOk());
  EXPECT_FALSE(found->has_value());
  EXPECT_FALSE(findNewestCheckpoint(folder.file("nowhere")).isOk());
}

TEST(CheckpointTest, passesOverDamagedOnes) {
  ScratchFolder folder;
  for (uint64_t step : {1, 2, 3, 4, 5})
    ASSERT_TRUE(save(folder.path, step, 10).isOk());
  fs::resize_file(folder.file("checkpoint-000005/model.safetensors"), 20);
  fs::remove(folder.file("checkpoint-000004/model.safetensors"));
  fs::remove(folder.file("checkpoint-000003/state.json"));
  folder.write("checkpoint-000002/state.json", "{\"step\": 2");
  testing::internal::CaptureStderr();
  auto found = findNewestCheckpoint(folder.path);
  std::string warnings = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(found.isOk() && found->has_value());
  EXPECT_EQ((*found)->state.step, 1u);
  EXPECT_THAT(warnings, HasSubstr("checkpoint-000005' is not whole: 'model.safetensors' has 20 bytes"));
}

TEST(CheckpointTest, replacesAnOlderOneOfTheSameStep) {
  ScratchFolder folder;
  ASSERT_TRUE(save(folder.path, 7, 10, 1).isOk());
  ASSERT_TRUE(save(folder.path, 7, 20, 2).isOk());
  EXPECT_EQ(openCheckpoint(folder.file("checkpoint-000007"))->state.seed, 2u);
  EXPECT_THAT(entries(folder.path), ::testing::ElementsAre("checkpoint-000007"));
}

TEST(CheckpointTest, whatIsNotCommittedLeavesNothing) {
  ScratchFolder folder;
  {
    auto pending = PendingCheckpoint::begin(folder.path, 3);
    ASSERT_TRUE(pending.isOk());
    folder.write(".checkpoint-000003.partial/model.safetensors", "half");
  }
  EXPECT_TRUE(entries(folder.path).empty());
  // A killed run cannot clean up; the next save does.
  fs::create_directory(folder.file(".checkpoint-000009.partial"));
  ASSERT_TRUE(save(folder.path, 10, 5).isOk());
  EXPECT_THAT(entries(folder.path), ::testing::ElementsAre("checkpoint-000010"));
}

TEST(CheckpointTest, oneThatWasNotYetPutInPlaceIsFound) {
  ScratchFolder folder;
  ASSERT_TRUE(save(folder.path, 7, 10).isOk());
  ASSERT_TRUE(save(folder.path, 9, 10).isOk());
  // Killed between the removal of an older one and the rename; and while another was written.
  fs::rename(folder.file("checkpoint-000009"), folder.file(".checkpoint-000009.partial"));
  fs::create_directory(folder.file(".checkpoint-000011.partial"));
  auto found = findNewestCheckpoint(folder.path);
  ASSERT_TRUE(found.isOk() && found->has_value());
  EXPECT_EQ((*found)->state.step, 9u);
  ASSERT_TRUE(save(folder.path, 10, 10).isOk());
  EXPECT_THAT(entries(folder.path),
              ::testing::ElementsAre("checkpoint-000007", "checkpoint-000009", "checkpoint-000010"));
  // Killed behind the exchange: the hidden one is the older one.
  fs::copy(folder.file("checkpoint-000010"), folder.file(".checkpoint-000010.partial"), fs::copy_options::recursive);
  ASSERT_TRUE(save(folder.path, 12, 10).isOk());
  EXPECT_THAT(entries(folder.path), ::testing::ElementsAre("checkpoint-000007", "checkpoint-000009",
                                                           "checkpoint-000010", "checkpoint-000012"));
}

TEST(CheckpointTest, thoseOfAnOlderRunArePassedOver) {
  ScratchFolder folder;
  ASSERT_TRUE(save(folder.path, 7, 10).isOk());
  EXPECT_TRUE(findNewestCheckpoint(folder.path, "r1")->has_value());
  testing::internal::CaptureStderr();
  EXPECT_FALSE(findNewestCheckpoint(folder.path, "r2")->has_value());
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("checkpoint-000007' is of an older run"));
}

using Start = RunFolder::Start;

TEST(RunFolderTest, isLockedAndOfOneRun) {
  ScratchFolder folder;
  std::string out = folder.file("run"), name;
  auto refusal = [&](Start start) { return std::string(RunFolder::open(out, start).status().message()); };
  {
    auto first = RunFolder::open(out, Start::Fresh);
    ASSERT_TRUE(first.isOk());
    EXPECT_THAT(refusal(Start::Fresh), HasSubstr("another maestro-run writes there"));
    ASSERT_TRUE((*first)->claim().isOk());
    name = (*first)->run();
  }
  EXPECT_EQ(*readRunName(out), name);
  EXPECT_THAT(refusal(Start::Resume), HasSubstr("holds no checkpoint; start without --resume"));
  EXPECT_FALSE((*RunFolder::open(out, Start::ResumeOrFresh))->found());
  ASSERT_TRUE(save(out, 4, 10).isOk()); // Of run r1.
  EXPECT_THAT(refusal(Start::Fresh), HasSubstr("holds results of a run already (checkpoint-000004)"));
  EXPECT_THAT(refusal(Start::Resume), HasSubstr("no whole checkpoint of its last run"));
  EXPECT_THAT(refusal(Start::ResumeOrFresh), HasSubstr("no whole checkpoint of its last run"));
  std::ofstream(out + "/run.json") << formatRunName("r1");
  EXPECT_EQ((*RunFolder::open(out, Start::ResumeOrFresh))->found()->state.step, 4u);
  EXPECT_EQ((*RunFolder::open(out, Start::Resume))->run(), "r1");
}

TEST(RunFolderTest, replacesAnOlderRunWhenItIsClaimed) {
  ScratchFolder folder;
  for (uint64_t step : {4, 5})
    ASSERT_TRUE(save(folder.path, step, 10).isOk());
  fs::rename(folder.file("checkpoint-000005"), folder.file(".checkpoint-000005.partial"));
  auto next = RunFolder::open(folder.path, Start::Replace);
  ASSERT_TRUE(next.isOk());
  EXPECT_TRUE(openCheckpoint(folder.file("checkpoint-000004")).isOk());
  ASSERT_TRUE((*next)->claim().isOk());
  EXPECT_THAT(entries(folder.path), ::testing::ElementsAre("run.json"));
}

TEST(RunFolderTest, goesOnReplacingWhereItWasEnded) {
  ScratchFolder folder;
  ASSERT_TRUE(save(folder.path, 4, 10).isOk());
  std::ofstream(folder.file("run.json")) << formatRunName("r2"); // It had claimed the folder, and not cleared it.
  auto again = RunFolder::open(folder.path, Start::GoOn);
  ASSERT_TRUE(again.isOk()) << again.status().message();
  EXPECT_FALSE((*again)->found());
  ASSERT_TRUE((*again)->claim().isOk());
  EXPECT_EQ(*readRunName(folder.path), (*again)->run());
  EXPECT_THAT(entries(folder.path), ::testing::ElementsAre("run.json"));
}

TEST(RunFolderTest, keepsTheNewest) {
  ScratchFolder folder;
  for (uint64_t step : {1, 2, 30, 4})
    ASSERT_TRUE(save(folder.path, step, 10).isOk());
  ASSERT_TRUE((*RunFolder::open(folder.path, Start::Resume))->keepNewest(2).isOk());
  EXPECT_THAT(entries(folder.path), ::testing::ElementsAre("checkpoint-000004", "checkpoint-000030"));
}

TEST(RunFolderTest, keepsWhatIsBeingRead) {
  ScratchFolder folder;
  auto run = RunFolder::open(folder.path, Start::Fresh);
  for (uint64_t step : {1, 2})
    ASSERT_TRUE(save(folder.path, step, 10).isOk());
  fs::rename(folder.file("checkpoint-000002"), folder.file(".checkpoint-000002.partial"));
  auto found = findNewestCheckpoint(folder.path, "", Access::Reads);
  ASSERT_TRUE(found.isOk() && found->has_value());
  EXPECT_EQ((*found)->state.step, 1u); // A hidden one may change its name at any moment.
  EXPECT_TRUE(isBeingRead(folder.path, 1));
  for (uint64_t step : {3, 4})
    ASSERT_TRUE(save(folder.path, step, 10).isOk());
  ASSERT_TRUE((*run)->keepNewest(1).isOk());
  EXPECT_TRUE(openCheckpoint(folder.file("checkpoint-000001")).isOk());
  found->reset();
  EXPECT_FALSE(isBeingRead(folder.path, 1));
  ASSERT_TRUE((*run)->keepNewest(1).isOk());
  EXPECT_THAT(entries(folder.path), ::testing::ElementsAre("checkpoint-000004"));
}

/// Runs `body` in a child whose files may have at most `bytes` bytes; its exit status is returned.
template <typename Body> int withFileLimit(rlim_t bytes, Body body) {
  pid_t child = ::fork();
  if (child == 0) {
    rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(CheckpointTest, aFullDiskKeepsThePreviousOne) {
  ScratchFolder folder;
  ASSERT_TRUE(save(folder.path, 1, 10).isOk());
  for (size_t count : {100'000u, 1'000'000u}) { // Less and more than what is buffered.
    std::string report = folder.file("report");
    int exit = withFileLimit(64 * 1024, [&] {
      Status status = save(folder.path, 2, count);
      std::ofstream(report) << status.message();
      return status.exitStatus();
    });
    EXPECT_EQ(exit, 2);
    EXPECT_THAT(test::readFile(report),
                ::testing::AllOf(HasSubstr("cannot write '"), HasSubstr("File too large"), HasSubstr("ulimit -f")));
    fs::remove(report);
  }
  EXPECT_THAT(entries(folder.path), ::testing::ElementsAre("checkpoint-000001"));
  EXPECT_TRUE(openCheckpoint(folder.file("checkpoint-000001")).isOk());
}

TEST(CheckpointTest, aFullDeviceIsReported) {
  TensorInfo tensor{.name = "w", .dtype = DType::F32, .shape = {100000}, .offset = 0, .bytes = 0};
  auto writer = SafetensorsWriter::create("/dev/full", std::span(&tensor, 1), {});
  ASSERT_TRUE(writer.isOk());
  std::vector<float> values(100000);
  Status status = writer->append(std::as_bytes(std::span(values)));
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("No space left on device; free space there"));
}

TEST(CheckpointTest, stateNamesWhatIsWrong) {
  std::map<std::string, uint64_t> files;
  std::string good = formatState(state(), {{"a", 1}});
  ASSERT_TRUE(parseState(good, files).isOk());
  auto refusal = [&](std::string from, std::string to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    auto parsed = parseState(text, files);
    EXPECT_FALSE(parsed.isOk());
    return std::string(parsed.status().message());
  };
  EXPECT_THAT(refusal("\"step\": 0", "\"step\": -1"), HasSubstr("'step' is missing or not a number"));
  EXPECT_THAT(refusal("\"plan_hash\"", "\"hash\""), HasSubstr("'plan_hash' is missing"));
  EXPECT_THAT(refusal("fedc", "FEDC"), HasSubstr("'plan_hash' is missing or not 16 hexadecimal digits"));
  EXPECT_THAT(refusal("\"version\": 1", "\"version\": 2"), HasSubstr("'version' is not 1"));
  EXPECT_THAT(refusal("\"ordinal\"", "\"other\""), HasSubstr("position: 'ordinal'"));
  EXPECT_THAT(refusal("\"without_gain\": 2", "\"without\": 2"), HasSubstr("best_validation: 'without_gain'"));
  EXPECT_THAT(refusal("\"a\": 1", "\"../a\": 1"), HasSubstr("'files'"));
  EXPECT_THAT(refusal("\"bytes\": 17", "\"bytes\": -17"), HasSubstr("a shard of data: 'bytes'"));
  EXPECT_THAT(refusal("\"shuffled\": true", "\"shuffled\": 1"),
              HasSubstr("data: 'shuffled' is missing or not true or false"));
  EXPECT_THAT(refusal("{", "["), HasSubstr("no JSON object"));
}

} // namespace
} // namespace maestro::checkpoint
