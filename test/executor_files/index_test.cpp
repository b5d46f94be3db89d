// Kept indexes: what they say is what the headers say, and of this state of the shard alone.
#include "executor/data/index_file.h"
#include "executor/data/index_store.h"
#include "executor/data/shard_samples.h"
#include "scratch_folder.h"
#include "tar_builder.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace maestro::data {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;
using test::shardOfEverything;
using test::tarEnd;
using test::tarMember;
using ::testing::HasSubstr;

std::string golden(const std::string &name) { return std::string(MAESTRO_GOLDEN_FILES) + "/" + name; }

bool isSame(const IndexedArray &a, const IndexedArray &b) {
  return a.offset == b.offset && a.firstDim == b.firstDim && a.field == b.field && a.headerHash == b.headerHash &&
         a.headerBytes == b.headerBytes && a.textBytes == b.textBytes && a.format == b.format && a.rank == b.rank &&
         a.fortranOrder == b.fortranOrder && (a.format != ValueFormat::Npy || a.element == b.element);
}

void expectSame(const ShardIndex &a, const ShardIndex &b) {
  EXPECT_EQ(a.fields, b.fields);
  EXPECT_EQ(a.keys, b.keys);
  EXPECT_EQ(a.dims, b.dims);
  ASSERT_EQ(a.sampleCount(), b.sampleCount());
  for (size_t i = 0; i <= a.sampleCount(); ++i) {
    EXPECT_EQ(a.samples[i].firstArray, b.samples[i].firstArray);
    EXPECT_EQ(a.samples[i].firstKeyByte, b.samples[i].firstKeyByte);
  }
  EXPECT_TRUE(std::ranges::equal(a.arrays, b.arrays, isSame));
}

KeptIndex indexOf(const std::string &path) {
  ShardFile file = std::move(*ShardFile::open(path));
  EXPECT_TRUE(file.unpack().isOk());
  ShardIndex index = std::move(*indexShard(file));
  return {*file.stamp(), file.bytes(), std::move(index)};
}

class IndexTest : public testing::Test {
protected:
  std::string shard(const std::string &content = shardOfEverything()) { return folder.write("shard.tar", content); }
  std::string cache() const { return folder.file("cache"); }

  Result<std::optional<StoredIndex>> find(const std::string &path, const std::string &where) {
    MAESTRO_ASSIGN(IndexStore store, IndexStore::open(where));
    MAESTRO_ASSIGN(ShardFile file, ShardFile::open(path));
    return store.find(file);
  }
  std::vector<std::string> files(const std::string &where) {
    std::vector<std::string> names;
    for (const auto &entry : fs::directory_iterator(where))
      names.push_back(entry.path().filename());
    return names;
  }
  std::string message(const std::string &bytes) {
    auto kept = decodeIndex(std::as_bytes(std::span(bytes)));
    return kept ? "" : std::string(kept.status().message());
  }

  ScratchFolder folder;
};

TEST_F(IndexTest, keepsAllThatHeadersSay) {
  for (const std::string &path : {shard(), golden("gnu.tar"), golden("pax.tar"), golden("ustar.tar.gz")}) {
    KeptIndex kept = indexOf(path);
    auto read = decodeIndex(encodeIndex(kept));
    ASSERT_TRUE(read.isOk()) << read.status().message();
    EXPECT_EQ(read->stamp, kept.stamp);
    EXPECT_EQ(read->tarBytes, kept.tarBytes);
    expectSame(read->index, kept.index);
  }
}

TEST_F(IndexTest, noChangedByteIsTaken) {
  std::vector<std::byte> whole = encodeIndex(indexOf(shard()));
  for (size_t at = 0; at < whole.size(); ++at) {
    std::vector<std::byte> changed = whole;
    changed[at] ^= std::byte{0x10};
    EXPECT_FALSE(decodeIndex(changed).isOk()) << at;
    EXPECT_FALSE(decodeIndex(std::span(whole).first(at)).isOk()) << at;
  }
  EXPECT_THAT(message("MSTINDEX" + std::string("\2\0\0\0", 4) + std::string(8, '\0')), HasSubstr("has version 2"));
  EXPECT_THAT(message(std::string(100, 'x')), HasSubstr("is no index"));
}

TEST_F(IndexTest, isMadeOnceAndForThisStateOfTheShardAlone) {
  std::string path = shard();
  ASSERT_TRUE((*find(path, cache())).has_value());
  ASSERT_EQ(files(cache()).size(), 1u);
  std::string index = cache() + "/" + files(cache())[0];
  fs::file_time_type made = fs::last_write_time(index);
  auto again = find(path, cache());
  expectSame((*again)->index, indexOf(path).index);
  EXPECT_EQ(fs::last_write_time(index), made);

  // Of the same size, and with the same time, as on file systems that know none: what differs is its beginning.
  timespec times[2] = {{.tv_sec = 1, .tv_nsec = 7}, {.tv_sec = 1, .tv_nsec = 7}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  ASSERT_TRUE((*find(path, cache())).has_value());
  std::string other = shardOfEverything();
  std::string renamed = tarMember("shared/lebal.cls", "7") + other.substr(1024);
  ASSERT_EQ(renamed.size(), other.size());
  shard(renamed);
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  auto renewed = find(path, cache());
  EXPECT_FALSE(renewed.isOk()); // The link leads nowhere now: the headers were read.
  shard(tarMember("k.ids.npy", test::npy("<i8", "()", test::bytesOf<int64_t>({4}))) + tarEnd());
  EXPECT_EQ((*find(path, cache()))->index.sampleCount(), 1u);
  EXPECT_EQ(files(cache()).size(), 1u);
}

TEST_F(IndexTest, liesBesideTheShardWhereTheCacheIsItsFolder) {
  std::string path = shard();
  ASSERT_TRUE((*find(path, folder.path)).has_value());
  EXPECT_TRUE(fs::exists(path + ".index"));
  EXPECT_TRUE((*find(path, "")).has_value()); // And is found without --cache.
  fs::remove(path + ".index");
  EXPECT_FALSE((*find(path, "")).has_value());
  EXPECT_FALSE(fs::exists(path + ".index"));
}

TEST_F(IndexTest, aDamagedOneIsMadeAnew) {
  std::string path = shard();
  ASSERT_TRUE((*find(path, cache())).has_value());
  std::string index = cache() + "/" + files(cache())[0], whole = test::readFile(index);
  for (const std::string &content : {std::string(), whole.substr(0, 100), "X" + whole.substr(1)}) {
    std::ofstream(index, std::ios::binary) << content;
    expectSame((*find(path, cache()))->index, indexOf(path).index);
    EXPECT_EQ(test::readFile(index), whole);
  }
  EXPECT_EQ(files(cache()).size(), 1u);
}

TEST_F(IndexTest, aFolderThatCannotBeMadeIsAnErrorAndOneThatCannotBeWrittenIsNot) {
  std::string path = shard();
  EXPECT_THAT(std::string(IndexStore::open(path + "/cache").status().message()), HasSubstr("--cache"));
  fs::create_directory(cache());
  fs::create_directory(cache() + "/taken");
  auto none = find(path, "/proc/self"); // Where nobody can write.
  ASSERT_TRUE(none.isOk()) << none.status().message();
  EXPECT_FALSE(none->has_value());
}

/// All find the same, and of what they leave there is one.
TEST_F(IndexTest, processesThatMakeItAtOnceDoNoHarm) {
  std::string path = shard();
  KeptIndex expected = indexOf(path);
  constexpr int kProcesses = 8, kTimes = 20;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    pid_t child = ::fork();
    if (child == 0) {
      bool good = true;
      for (int i = 0; i < kTimes; ++i) {
        auto found = find(path, cache());
        good &= found.isOk() && found->has_value() && (*found)->index.keys == expected.index.keys &&
                (*found)->index.arrays.size() == expected.index.arrays.size();
        if (p == 0) // It changes all the time.
          for (const std::string &name : files(cache()))
            fs::remove(cache() + "/" + name);
      }
      ::_exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  ASSERT_TRUE((*find(path, cache())).has_value());
  EXPECT_EQ(files(cache()).size(), 1u);
}

/// One value at a time, with an index that is kept.
class KeptValuesTest : public IndexTest {
protected:
  std::unique_ptr<ShardSamples> openSamples() {
    IndexStore store = *IndexStore::open(cache());
    auto opened = ShardSamples::open(path, wanted, store);
    EXPECT_TRUE(opened.isOk()) << opened.status().message();
    return *std::move(opened);
  }
  std::string readIds(ShardSamples &samples) {
    values.assign(2, 0);
    Status status = samples.read(0, 0, std::as_writable_bytes(std::span(values)));
    return std::string(status.message());
  }

  std::string path = shard(tarMember("a.ids.npy", test::npy("<i8", "(2,)", test::bytesOf<int64_t>({4, 5}))) + tarEnd());
  std::vector<WantedField> wanted = {{"ids", false}};
  std::vector<int64_t> values;
};

TEST_F(KeptValuesTest, areReadWhereTheIndexSays) {
  openSamples();
  EXPECT_EQ(readIds(*openSamples()), "ok");
  EXPECT_THAT(values, testing::ElementsAre(4, 5));
}

TEST_F(KeptValuesTest, ofAShardThatChangesMeanwhileAreRefused) {
  auto samples = openSamples();
  shard(tarMember("a.ids.npy", test::npy("<i8", "(2,)", test::bytesOf<int64_t>({6, 7}))) + tarEnd());
  EXPECT_THAT(readIds(*samples),
              testing::AllOf(HasSubstr("shard.tar' changed while it was read"), HasSubstr(".index' says what it was")));
}

TEST_F(KeptValuesTest, thatAreNotWhatTheIndexSaysAreRefused) {
  // An index of this very state that speaks of another shard.
  KeptIndex wrong = indexOf(path);
  wrong.index.arrays[0].offset -= 8;
  openSamples();
  std::vector<std::byte> bytes = encodeIndex(wrong);
  std::ofstream(cache() + "/" + files(cache())[0], std::ios::binary)
      << std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  EXPECT_THAT(readIds(*openSamples()),
              testing::AllOf(HasSubstr("shard.tar' does not hold what its index"), HasSubstr("remove the index")));
}

TEST_F(KeptValuesTest, ofAPackedShardComeWithoutItsHeaders) {
  path = golden("ustar.tar.gz");
  wanted = {{"ids", false}};
  openSamples();
  auto samples = openSamples();
  Sample sample;
  samples->describe(0, sample);
  values.assign(static_cast<size_t>(sample.fields[0].dims.elements()), -1);
  ASSERT_TRUE(samples->read(0, 0, std::as_writable_bytes(std::span(values))).isOk());
  EXPECT_NE(values.back(), -1);
}

TEST_F(KeptValuesTest, complainAsHeadersDo) {
  path = shard();
  for (auto [name, words] : {std::pair("bad", "not an npy file"), {"note", "'{}' is not one number"}}) {
    wanted = {{name, true}};
    for (bool isKept : {false, true}) {
      IndexStore store = *IndexStore::open(isKept ? cache() : "");
      auto opened = ShardSamples::open(path, wanted, store);
      Status status = opened ? (*opened)->complete() : std::move(opened).takeStatus();
      EXPECT_THAT(
          std::string(status.message()),
          testing::AllOf(HasSubstr(std::string("field '") + name + "' of sample 'b/y' of shard"), HasSubstr(words)));
    }
  }
}

} // namespace
} // namespace maestro::data
