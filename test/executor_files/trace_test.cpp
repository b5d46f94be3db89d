#include "executor/metrics/trace.h"

#include "scratch_folder.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <thread>
#include <vector>

namespace maestro::metrics {
namespace {
using nlohmann::json;
using test::ScratchFolder;

json load(const std::string &path) { return json::parse(test::readFile(path), nullptr, false); }

TEST(TraceTest, writesCompleteEvents) {
  ScratchFolder folder;
  auto trace = TraceFile::create(folder.file("trace.json"));
  ASSERT_TRUE(trace.isOk());
  (*trace)->nameRank(0, "rank 0");
  (*trace)->nameStation(0, 2, "student \"a\"\n");
  (*trace)->add({.name = "matmul",
                 .category = "kernel",
                 .detail = "layers.0\\x",
                 .rank = 0,
                 .station = 2,
                 .startNs = 1234567,
                 .durationNs = 89,
                 .step = 1,
                 .microbatch = 0});
  (*trace)->add({.name = "early", .category = "task", .detail = {}, .startNs = -1500});
  ASSERT_TRUE((*trace)->flush().isOk());
  json events = load(folder.file("trace.json"))["traceEvents"];
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[1]["args"]["name"], "student \"a\"\n");
  EXPECT_EQ(events[2], json::parse(R"({"ph": "X", "name": "matmul", "cat": "kernel", "ts": 1234.567, "dur": 0.089,
    "pid": 0, "tid": 2, "args": {"step": 1, "microbatch": 0, "scope": "layers.0\\x"}})"));
  EXPECT_EQ(events[3]["ts"], -1.5);
}

TEST(TraceTest, isValidJsonAtEveryMoment) {
  ScratchFolder folder;
  std::string path = folder.file("trace.json");
  auto trace = TraceFile::create(path);
  ASSERT_TRUE(trace.isOk());
  EXPECT_EQ(load(path)["traceEvents"].size(), 0u);
  size_t grew = 0, before = 0;
  for (int i = 0; i < 5000; ++i) {
    (*trace)->add({.name = "kernel", .category = "kernel", .detail = "scope", .startNs = i * 1000, .durationNs = 10});
    if (i % 250 != 0)
      continue;
    json now = load(path); // As a killed run would leave it.
    ASSERT_FALSE(now.is_discarded()) << i;
    grew += now["traceEvents"].size() > before;
    before = now["traceEvents"].size();
  }
  EXPECT_GE(grew, 3u);
  trace->reset();
  EXPECT_EQ(load(path)["traceEvents"].size(), 5000u);
}

TEST(TraceTest, takesEventsFromManyThreads) {
  ScratchFolder folder;
  auto trace = TraceFile::create(folder.file("trace.json"));
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 1000; ++i)
        (*trace)->add({.name = "k", .category = "c", .detail = {}, .station = t, .startNs = i});
    });
  for (std::thread &thread : threads)
    thread.join();
  trace->reset();
  EXPECT_EQ(load(folder.file("trace.json"))["traceEvents"].size(), 4000u);
}

TEST(TraceTest, aFullDiskIsReportedOnce) {
  auto trace = TraceFile::create("/dev/full");
  EXPECT_EQ(trace.status().code(), StatusCode::Unavailable);
}

} // namespace
} // namespace maestro::metrics
