// The decisions file: whole lines, whatever the disk does.
#include "server/records.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace parallax::server {
namespace {

class RecordsTest : public testing::Test {
 protected:
  RecordsTest() {
    std::string name =
        (std::filesystem::temp_directory_path() / "parallax_records_XXXXXX").string();
    const int fd = ::mkstemp(name.data());
    EXPECT_GE(fd, 0);
    ::close(fd);
    path_ = name;
  }
  ~RecordsTest() override { std::filesystem::remove(path_); }

  static router::Decision Make(const std::string& id) {
    router::Decision decision;
    decision.id = id;
    decision.reason = "because of " + id;
    return decision;
  }
  std::string Text() const {
    std::ifstream in(path_, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  // Every line as a decision's id, "?" where it is none.
  std::vector<std::string> Ids() const {
    std::vector<std::string> ids;
    std::istringstream text(Text());
    for (std::string line; std::getline(text, line);) {
      const auto decision = router::FromJson(line);
      ids.push_back(decision.ok() ? decision->id : "?");
    }
    return ids;
  }
  std::string path_;
};

using Ids = std::vector<std::string>;

TEST_F(RecordsTest, AppendsOneLineAFinishedDecision) {
  {
    Records records;
    ASSERT_TRUE(records.Open(path_).ok());
    records.Add(Make("a"));
    records.Finish(Make("a"));
    records.Finish(Make("b"));
    EXPECT_EQ(records.written(), 2U);
    EXPECT_EQ(records.lost(), 0U);
  }
  Records again;
  ASSERT_TRUE(again.Open(path_).ok());
  again.Finish(Make("c"));
  EXPECT_EQ(this->Ids(), (server::Ids{"a", "b", "c"}));
}

TEST_F(RecordsTest, ATornLastLineStaysALineOfItsOwn) {
  std::ofstream(path_) << router::ToJson(Make("a")) << "\n{\"id\":\"to";
  Records records;
  ASSERT_TRUE(records.Open(path_).ok());
  EXPECT_EQ(records.written(), 0U);
  records.Finish(Make("b"));
  EXPECT_EQ(this->Ids(), (server::Ids{"a", "?", "b"}));
  EXPECT_EQ(records.written(), 1U);
}

TEST_F(RecordsTest, KeepsTheNewest) {
  Records records(3);
  for (const char* id : {"a", "b", "c", "d"}) records.Add(Make(id));
  EXPECT_EQ(records.Find("a"), nullptr);
  ASSERT_NE(records.Find("b"), nullptr);
  EXPECT_EQ(records.order().size(), 3U);
  router::Decision changed = Make("c");
  changed.outcome.finish = "stop";
  records.Finish(changed);
  EXPECT_EQ(records.Find("c")->outcome.finish, "stop");
  EXPECT_EQ(records.order().size(), 3U);
}

TEST_F(RecordsTest, WhatCannotBeOpened) {
  Records records;
  const auto result = records.Open("/nonexistent/dir/file");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), ErrorCode::kIo);
  EXPECT_NE(result.error().message().find("/nonexistent/dir/file"), std::string::npos);
  records.Finish(Make("a"));  // goes on without a file
  EXPECT_NE(records.Find("a"), nullptr);
}

TEST_F(RecordsTest, AFullDiskLosesRecordsOnly) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full";
  Records records;
  ASSERT_TRUE(records.Open("/dev/full").ok());
  records.Finish(Make("a"));
  records.Finish(Make("b"));
  EXPECT_EQ(records.lost(), 2U);
  EXPECT_EQ(records.written(), 0U);
  EXPECT_NE(records.last_error(), "");
  EXPECT_NE(records.Find("b"), nullptr);
}

// The limit of file size stands for a disk that fills up in the middle of a record: the half that
// was written is taken back. In a child, for the limit is the process's.
TEST_F(RecordsTest, HalfARecordIsTakenBack) {
  const std::string line = router::ToJson(Make("a")) + "\n";
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const auto bytes = static_cast<rlim_t>(line.size() * 5 / 2);  // two lines and a half
    const rlimit limit{bytes, bytes};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(10);
    Records records;
    if (!records.Open(path_).ok()) ::_exit(11);
    for (const char* id : {"a", "b", "c", "d"}) records.Finish(Make(id));
    ::_exit(records.written() == 2 && records.lost() == 2 && !records.last_error().empty() ? 0
                                                                                           : 12);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(Text(), line + router::ToJson(Make("b")) + "\n");
}

}  // namespace
}  // namespace parallax::server
