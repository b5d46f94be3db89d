#include "executor/data/shard_samples.h"

#include "executor/data/index_store.h"
#include "executor/data/scalar_text.h"
#include "executor/data/shard_pattern.h"
#include "scratch_folder.h"
#include "tar_builder.h"

#include <gmock/gmock.h>

namespace maestro::data {
namespace {
using test::ScratchFolder;
using test::tarEnd;
using test::tarMember;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kIds = test::npy("<i8", "(2,)", test::bytesOf<int64_t>({4, 5}));
const std::vector<WantedField> kWanted = {{"ids", false}, {"label", true}};

Result<ShardIndex> indexText(const std::string &content, const std::vector<WantedField> &wanted = kWanted) {
  ScratchFolder folder;
  std::string path = folder.write("shard.tar", content);
  MAESTRO_ASSIGN(auto samples, ShardSamples::open(path, wanted, IndexStore()));
  MAESTRO_TRY(samples->complete());
  return indexShard(samples->file());
}

std::string refusal(const std::string &content, const std::vector<WantedField> &wanted = kWanted) {
  auto index = indexText(content, wanted);
  EXPECT_FALSE(index.isOk());
  EXPECT_EQ(index.status().exitStatus(), 1);
  return std::string(index.status().message());
}

TEST(ShardTest, indexesSamplesInFileOrder) {
  auto index = indexText(tarMember("a/x.ids.npy", kIds) + tarMember("a/x.label.cls", "7") +
                         tarMember("a/w.ids.npy", kIds) + tarEnd());
  ASSERT_TRUE(index.isOk()) << index.status().message();
  ASSERT_EQ(index->sampleCount(), 2u);
  EXPECT_EQ(index->key(0), "a/x");
  EXPECT_EQ(index->key(1), "a/w");
  ASSERT_EQ(index->arraysOf(0).size(), 2u);
  EXPECT_EQ(toString(index->dimsOf(index->arraysOf(0)[0])), "[2]");
  EXPECT_EQ(index->dtypeOf(index->arraysOf(0)[0]), DType::I64);
  EXPECT_EQ(index->arraysOf(0)[0].offset, 512u + 128u);
  EXPECT_EQ(toString(index->dimsOf(index->arraysOf(0)[1])), "[]");
  EXPECT_EQ(index->arraysOf(1).size(), 1u);
}

TEST(ShardTest, readsGoldenShardsOfEveryFormat) {
  std::vector<WantedField> wanted = {{"ids", false}, {"label", false}, {"weight", true}};
  for (auto [name, samples] : {std::pair("gnu.tar", 3u),
                               {"pax.tar", 3u},
                               {"ustar.tar.gz", 3u},
                               {"ustar.tar.zst", 3u},
                               {"ustar.tar.xz", 3u},
                               {"ustar.tar.bz2", 3u}}) {
    auto shard = ShardSamples::open(std::string(MAESTRO_GOLDEN_FILES) + "/" + name, wanted, IndexStore());
    ASSERT_TRUE(shard.isOk()) << shard.status().message();
    Status status = (*shard)->complete();
    ASSERT_TRUE(status.isOk()) << name << status.message();
    EXPECT_EQ((*shard)->count(), samples) << name;
  }
}

TEST(ShardTest, leavesOtherMembersAlone) {
  std::string other = tarMember("README", "text") + tarMember("a/", "", '5') + tarMember("a/._x.ids.npy", "junk") +
                      tarMember("a/x.note.json", "{\"not\": \"a number\"}") + tarMember("a/x.big.npy", "damaged") +
                      tarMember("a/x.ids.npy", kIds);
  auto index = indexText(other + tarEnd());
  ASSERT_TRUE(index.isOk()) << index.status().message();
  EXPECT_EQ(index->sampleCount(), 1u);
}

TEST(ShardTest, anEmptyTarHasNoSamples) {
  auto index = indexText(std::string(10240, '\0'));
  ASSERT_TRUE(index.isOk()) << index.status().message();
  EXPECT_EQ(index->sampleCount(), 0u);
}

TEST(ShardTest, namesWhatASampleLacks) {
  EXPECT_THAT(refusal(tarMember("k1.idz.npy", kIds) + tarEnd()),
              ::testing::AllOf(HasSubstr("sample 'k1' of shard"), HasSubstr("lacks field 'ids'; it has: idz"),
                               HasSubstr("did you mean 'idz'")));
  EXPECT_THAT(refusal(tarMember("k1.ids.jpg", "...") + tarEnd()),
              HasSubstr("'ids.jpg' is not read: store it as ids.npy"));
  EXPECT_THAT(
      refusal(tarMember("k1.json", "{\"ids\": [1]}") + tarEnd()),
      ::testing::AllOf(HasSubstr("it has: json"), HasSubstr("<sample key>.<field>.npy"), HasSubstr("maestro.shards")));
  EXPECT_THAT(
      refusal(tarMember("k1.tokens.npy", kIds) + tarEnd()),
      ::testing::AllOf(HasSubstr("it has: tokens; rename"), HasSubstr("inputs: {FIELD: {to: [COMPONENT.ids]}}")));
}

TEST(ShardTest, refusesSamplesThatAreTornApart) {
  std::string content =
      tarMember("a.ids.npy", kIds) + tarMember("b.ids.npy", kIds) + tarMember("a.label.cls", "1") + tarEnd();
  EXPECT_THAT(refusal(content), HasSubstr("members of sample 'a' of shard"));
  EXPECT_THAT(refusal(tarMember("a.ids.npy", kIds) + tarMember("a.ids.npy", kIds) + tarEnd()),
              AllOf(HasSubstr("field 'ids' of sample 'a' of shard"), HasSubstr("appears twice")));
}

TEST(ShardTest, namesTheDamagedMember) {
  EXPECT_THAT(refusal(tarMember("a.ids.npy", "no array") + tarEnd()),
              ::testing::AllOf(HasSubstr("field 'ids' of sample 'a' of shard"), HasSubstr("not an npy file")));
  EXPECT_THAT(refusal(tarMember("a.ids.npy", kIds) + tarMember("a.label.cls", "seven") + tarEnd()),
              HasSubstr("'seven' is not one number"));
  EXPECT_THAT(refusal(tarMember("a.ids.npy", kIds) + tarMember("a.label.cls", std::string(200, '1')) + tarEnd()),
              HasSubstr("200 bytes are more than one number has"));
}

TEST(ShardTest, everyCutIsNoticed) {
  std::string whole = tarMember("a.ids.npy", kIds) + tarMember("b.ids.npy", kIds) + tarMember("c.ids.npy", kIds);
  for (size_t length = 0; length <= whole.size(); length += 64)
    EXPECT_FALSE(indexText(whole.substr(0, length)).isOk()) << length;
  EXPECT_THAT(refusal(whole),
              HasSubstr("is cut off: no end-of-archive block follows its last member, which ends at byte 3072"));
  EXPECT_TRUE(indexText(whole + tarEnd()).isOk());
}

TEST(ShardTest, linksAreWhatTheyLeadTo) {
  auto index = indexText(tarMember("shared/label.cls", "7") + tarMember("a/x.ids.npy", kIds) +
                             tarMember("a/x.label.cls", "", '1', "shared/label.cls") +
                             tarMember("b/y.ids.npy", "", '2', "../a/./x.ids.npy") +
                             tarMember("b/z.ids.npy", "", '2', "y.ids.npy") + tarEnd(),
                         {{"ids", true}, {"label", true}});
  ASSERT_TRUE(index.isOk()) << index.status().message();
  ASSERT_EQ(index->sampleCount(), 4u);
  uint64_t ids = index->arraysOf(1)[0].offset;
  EXPECT_EQ(index->arraysOf(2)[0].offset, ids);
  EXPECT_EQ(toString(index->dimsOf(index->arraysOf(3)[0])), "[2]");
  EXPECT_EQ(index->arraysOf(3)[0].offset, ids); // A link to a link.
  EXPECT_EQ(index->arraysOf(1)[1].offset, 512u);
  EXPECT_EQ(index->arraysOf(1)[1].textBytes, 1u);
}

TEST(ShardTest, refusesLinksThatLeadNowhere) {
  for (auto [type, target] :
       {std::pair('2', "/etc/passwd"), {'2', "../../x.ids.npy"}, {'1', "later.ids.npy"}, {'2', "x.ids.npy"}})
    EXPECT_THAT(
        refusal(tarMember("a/x.ids.npy", "", type, target) + tarMember("later.ids.npy", kIds) + tarEnd()),
        AllOf(HasSubstr("member 'a/x.ids.npy' of shard"), HasSubstr("is a link to"), HasSubstr("--dereference")))
        << target;
  EXPECT_TRUE(
      indexText(tarMember("a/x.readme.txt", "", '2', "/usr/share/doc") + tarMember("a/x.ids.npy", kIds) + tarEnd())
          .isOk());
}

TEST(ShardTest, refusesForeignFiles) {
  EXPECT_THAT(refusal(""), HasSubstr("is empty (0 bytes)"));
  EXPECT_THAT(refusal(std::string(5000, 'x')), HasSubstr("is not a whole tar file"));
  EXPECT_THAT(refusal("\x1f\x8b broken gzip"), HasSubstr("is not a whole tar file"));
  for (const char *suffix : {"gz", "zst", "xz", "bz2"}) {
    std::string packed = test::readFile(std::string(MAESTRO_GOLDEN_FILES) + "/ustar.tar." + suffix);
    EXPECT_THAT(refusal(packed.substr(0, packed.size() / 2)), HasSubstr("cannot be unpacked")) << suffix;
  }
  std::string damaged = tarMember("a.ids.npy", kIds) + tarMember("b.ids.npy", kIds) + tarEnd();
  damaged[1024 + 3] ^= 1; // The second header's checksum no longer holds.
  EXPECT_THAT(refusal(damaged), HasSubstr("is not a whole tar file"));
}

TEST(ShardTest, opensOnlyRegularFiles) {
  EXPECT_THAT(std::string(ShardFile::open("/nonexistent.tar").status().message()),
              HasSubstr("cannot open shard '/nonexistent.tar'"));
  EXPECT_FALSE(ShardFile::open("/dev/zero").isOk());
  EXPECT_FALSE(ShardFile::open("/tmp").isOk());
}

TEST(ScalarTextTest, readsOneNumber) {
  EXPECT_EQ(parseScalarText(" 42\n")->integer, 42);
  EXPECT_EQ(parseScalarText("-9223372036854775808")->integer, INT64_MIN);
  EXPECT_EQ(parseScalarText("-1.5e3")->real, -1500);
  EXPECT_EQ(parseScalarText("true")->format, ValueFormat::BoolText);
  for (const char *bad : {"", " ", "1 2", "9223372036854775808", "nan", "inf", "1e999", "[1]", "\"1\"", "0x10", "null"})
    EXPECT_FALSE(parseScalarText(bad).isOk()) << bad;
}

TEST(ShardPatternTest, expandsBraces) {
  EXPECT_THAT(*expandBraces("p-{08..11}.tar"), ElementsAre("p-08.tar", "p-09.tar", "p-10.tar", "p-11.tar"));
  EXPECT_THAT(*expandBraces("{a,b}/{0..1}"), ElementsAre("a/0", "a/1", "b/0", "b/1"));
  EXPECT_THAT(*expandBraces("plain"), ElementsAre("plain"));
  EXPECT_THAT(std::string(expandBraces("{5..2}").status().message()), HasSubstr("'{5..2}' counts down"));
  EXPECT_FALSE(expandBraces("{0..99999999999}").isOk());
  EXPECT_FALSE(expandBraces("{0..9999}{0..9999}").isOk());
  EXPECT_FALSE(expandBraces("a{b").isOk());
}

TEST(ShardPatternTest, findsFiles) {
  ScratchFolder folder;
  for (const char *name : {"b-1.tar", "b-0.tar", "c-0.tar", "other.txt", "b-0.tar.index"})
    folder.write(name, "x");
  std::vector<std::string> patterns = {folder.file("c-{0..0}.tar"), folder.file("b-*")};
  EXPECT_THAT(*expandShardPatterns(patterns),
              ElementsAre(folder.file("c-0.tar"), folder.file("b-0.tar"), folder.file("b-1.tar")));
  auto message = [](std::string pattern) {
    return std::string(expandShardPatterns(std::span(&pattern, 1)).status().message());
  };
  EXPECT_THAT(message(folder.file("d-*.tar")), HasSubstr("no file matches"));
  EXPECT_THAT(message(folder.file("b-{0..2}.tar")), HasSubstr("b-2.tar' does not exist"));
  EXPECT_THAT(message(folder.path), HasSubstr("is a folder; name the shards in it"));
}

} // namespace
} // namespace maestro::data
