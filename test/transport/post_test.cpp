#include "transport/local/post.h"

#include "test/transport/ranks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace maestro::transport {
namespace {

std::span<const std::byte> bytesOf(const uint32_t &number) { return std::as_bytes(std::span(&number, 1)); }
uint32_t numberIn(const PostBox::Letter &letter) {
  uint32_t number = 0;
  std::memcpy(&number, letter.bytes.data(), std::min(letter.bytes.size(), sizeof number));
  return number;
}

/// As many boxes as ranks, opened before the ranks are forked.
class PostTest : public testing::Test {
protected:
  PostTest() {
    for (auto &box : boxes)
      box = std::move(*PostBox::open());
  }
  test::World world{2};
  std::unique_ptr<PostBox> boxes[2];
};

TEST_F(PostTest, ADescriptorOpensTheOthersMemory) {
  Status status = world.run(test::RankKind::Processes, [&](uint32_t rank) -> Status {
    if (rank == 0) {
      int file = ::memfd_create("test", 0);
      (void)!::write(file, "hello", 6);
      boxes[0]->send(boxes[1]->name(), {}, file);
      MAESTRO_TRY(boxes[0]->flush(world.abort()));
      ::close(file);
      return Status();
    }
    MAESTRO_ASSIGN(PostBox::Letter letter, boxes[1]->receive(world.abort()));
    char text[6] = "";
    (void)!::pread(letter.descriptor.get(), text, 6, 0);
    return std::strcmp(text, "hello") == 0 ? Status() : Status::internal("another memory");
  });
  EXPECT_TRUE(status.isOk()) << status.message();
}

TEST_F(PostTest, MoreLettersThanTheSystemKeepsArriveInOrder) {
  constexpr uint32_t kLetters = 3000; // Above what a socket takes; both send before they read.
  Status status = world.run(test::RankKind::Processes, [&](uint32_t rank) -> Status {
    for (uint32_t i = 0; i < kLetters; ++i)
      boxes[rank]->send(boxes[1 - rank]->name(), bytesOf(i));
    for (uint32_t i = 0; i < kLetters; ++i) {
      MAESTRO_ASSIGN(PostBox::Letter letter, boxes[rank]->receive(world.abort()));
      if (numberIn(letter) != i || letter.descriptor.get() >= 0)
        return Status::internal("letter " + std::to_string(i) + " is another");
    }
    return boxes[rank]->flush(world.abort());
  });
  EXPECT_TRUE(status.isOk()) << status.message();
}

TEST_F(PostTest, WaitingEndsWithTheJob) {
  Status status = world.run(test::RankKind::Processes, [&](uint32_t rank) -> Status {
    if (rank == 1) {
      usleep(5000);
      return Status::internal("does not write");
    }
    return boxes[0]->receive(world.abort()).takeStatus();
  });
  EXPECT_EQ(status.message(), "rank 1: does not write");
}

TEST_F(PostTest, SaysThatNobodyReads) {
  boxes[0]->send("maestro-nobody", {});
  EXPECT_NE(std::string(boxes[0]->flush(world.abort()).message()).find("cannot be written to"), std::string::npos);
}

} // namespace
} // namespace maestro::transport
