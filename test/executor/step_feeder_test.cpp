// Which ranks get which step when: what runs ahead, and what must not.
#include "executor/core/step_feeder.h"

#include <gmock/gmock.h>

#include <fmt/format.h>

#include <string>
#include <vector>

using namespace maestro;
using namespace maestro::executor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

/// Passes of so many samples; the one after `good` cannot be read.
class Numbers : public data::SampleReader {
public:
  Numbers(uint64_t pass, uint64_t good) : pass(pass), good(good) {}
  Status seek(const data::DataPosition &position) override {
    next = position.ordinal;
    return Status();
  }
  Status read(data::Sample &sample) override {
    if (next == good)
      return Status::invalidInput("sample 'bad' is bad");
    sample.ordinal = next++;
    sample.endsPass = next % pass == 0;
    sample.next.ordinal = next;
    return Status();
  }

private:
  uint64_t pass, good, next = 0;
};

/// Notes what it is told: "T3" for step 3 to the ranks that train, "t3" for its gradients alone,
/// "F3" to those that do not, "await 3".
class Notes : public StepRanks {
public:
  void submit(const data::SampleBatch &, uint64_t step, To to, bool updates) override {
    list.push_back(fmt::format("{}{}", to == To::Frozen ? "F" : updates ? "T" : "t", step));
  }
  void prepare(data::SampleBatch &, uint64_t) override {}
  Result<const StepResult *> await(uint64_t step) override {
    list.push_back(fmt::format("await {}", step));
    return nullptr;
  }
  Status awaitReleased(uint64_t step) override {
    released = step;
    return Status();
  }
  bool runsAhead() const override { return frozen; }
  bool trainsHere() const override { return trains; }
  void drives(const char *) const override {}

  bool frozen = true, trains = true;
  uint64_t released = 0;
  std::vector<std::string> list;
};

class Feeder : public testing::Test {
protected:
  void begin(StepFeeder::Options options, uint64_t pass = 100, uint64_t good = 1000, uint64_t done = 0) {
    source = *data::SampleSource::create(std::make_unique<Numbers>(pass, good), {4, kStepsUnderWay});
    options.globalBatch = 2;
    feeder.emplace(notes, *source, options, done);
  }
  std::vector<std::string> next(bool updates = true) {
    notes.list.clear();
    auto result = feeder->next(updates);
    message = std::string(result.status().message());
    return notes.list;
  }

  Notes notes;
  std::unique_ptr<data::SampleSource> source;
  std::optional<StepFeeder> feeder;
  std::string message;
};

TEST_F(Feeder, EverybodyIsAStepAhead) {
  begin({.lastStep = 3});
  EXPECT_THAT(next(), ElementsAre("F1", "T1", "T2", "F2", "await 1"));
  EXPECT_THAT(next(), ElementsAre("T3", "F3", "await 2"));
  EXPECT_FALSE(feeder->isLast());
  EXPECT_THAT(next(), ElementsAre("await 3"));
  EXPECT_TRUE(feeder->isLast());
  EXPECT_EQ(feeder->step(), 3u);
  EXPECT_EQ(feeder->batch().next.ordinal, 6u);
}

TEST_F(Feeder, NobodyWhoTrainsRunsPastACheckpoint) {
  begin({.saveEvery = 2});
  EXPECT_THAT(next(), ElementsAre("F1", "T1", "T2", "F2", "await 1"));
  EXPECT_THAT(next(), ElementsAre("F3", "await 2"));
  EXPECT_TRUE(feeder->isCheckpointDue());
  EXPECT_THAT(next(), ElementsAre("T3", "T4", "F4", "await 3"));
  EXPECT_FALSE(feeder->isCheckpointDue());
}

TEST_F(Feeder, NobodyWhoTrainsRunsPastAnUpdateThatIsHeld) {
  begin({}, 100, 1000, 7);
  EXPECT_THAT(next(false), ElementsAre("F8", "t8", "F9", "await 8"));
  EXPECT_THAT(next(), ElementsAre("T9", "T10", "F10", "await 9"));
}

TEST_F(Feeder, ComparisonsWaitForSteps) {
  begin({.waitsForSteps = true});
  EXPECT_THAT(next(), ElementsAre("F1", "T1", "await 1"));
  EXPECT_THAT(next(), ElementsAre("F2", "T2", "await 2"));
}

TEST_F(Feeder, AProcessThatTrainsNothingGoesByItself) {
  notes.trains = false;
  begin({});
  EXPECT_THAT(next(), ElementsAre("F1", "T1", "await 1"));
}

TEST_F(Feeder, APassEndsTheRun) {
  begin({}, 3);
  next();
  EXPECT_FALSE(feeder->isLast());
  EXPECT_THAT(next(), ElementsAre("await 2"));
  EXPECT_EQ(feeder->batch().count, 1u);
  EXPECT_TRUE(feeder->isLast());
}

TEST_F(Feeder, ABatchIsReusedWhenNobodyReadsIt) {
  begin({});
  for (uint64_t step = 1; step <= 10; ++step) {
    next();
    EXPECT_GE(notes.released + kStepsUnderWay, step + 1);
  }
}

TEST_F(Feeder, BadDataIsSaidWhenItIsNeeded) {
  notes.frozen = false; // Nobody can do anything with step 3 before 2 is done.
  begin({}, 100, 4);
  next();
  EXPECT_THAT(next(), ElementsAre("F2", "await 2"));
  EXPECT_EQ(message, "ok");
  EXPECT_THAT(next(), ElementsAre());
  EXPECT_THAT(message, HasSubstr("sample 'bad' is bad"));
}

} // namespace
