#include "server/text_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace parallax::server {
namespace {

std::string Says(const std::string& path) {
  const Result<std::string> text = ReadTextFile(path);
  return text.ok() ? "" : text.error().message();
}

TEST(TextFile, GivesEveryByte) {
  char path[] = "/tmp/parallax_text_XXXXXX";
  const int fd = ::mkstemp(path);
  ASSERT_GE(fd, 0);
  ::close(fd);
  const std::string wanted = std::string("a\0b\r\n", 5) + std::string(200'000, 'x');
  std::ofstream(path, std::ios::binary) << wanted;
  const Result<std::string> text = ReadTextFile(path);
  ::unlink(path);
  ASSERT_TRUE(text.ok()) << text.error().message();
  EXPECT_EQ(*text, wanted);
}

// A stream over a folder throws on the first read; a device that never ends fills the memory.
TEST(TextFile, RefusesWhatIsNoText) {
  EXPECT_EQ(Says("/nonexistent/parallax.toml"),
            "cannot read /nonexistent/parallax.toml: No such file or directory");
  EXPECT_EQ(Says("/tmp"), "cannot read /tmp: Is a directory");
  EXPECT_EQ(Says("/dev/zero"), "cannot read /dev/zero: it is over 67108864 bytes");
  EXPECT_EQ(Says("/dev/null"), "");
}

}  // namespace
}  // namespace parallax::server
