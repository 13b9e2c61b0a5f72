#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/system/descriptors.hpp"
#include "troupe/transport/system/process.hpp"

namespace troupe::transport::test {
namespace {

TEST(watched_process, distinguishes_want_of_descriptors_from_an_end) {
  const auto self = this_process();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  auto few = before;
  few.rlim_cur = 128;
  if (few.rlim_max < 128 || descriptors().open > 100)
    GTEST_SKIP() << "descriptors cannot be counted down from 128 here";
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<std::ifstream> used;
  while (descriptors().open < 127 && used.size() < 128) used.emplace_back("/dev/null");
  // One is enough for the watch, and none is left for a look at the process.
  std::vector<std::string> results;
  for (int left : {1, 0}) {
    if (left == 0) used.emplace_back("/dev/null");
    std::string why;
    try {
      watch_process(self, why);
      results.push_back("watched");
    } catch (const error& e) {
      results.push_back(e.what());
    }
  }
  setrlimit(RLIMIT_NOFILE, &before);
  for (const auto& text : results) {
    EXPECT_NE(text.find("Too many open files"), text.npos) << text;
    EXPECT_NE(text.find("(ulimit -n)"), text.npos) << text;
    EXPECT_EQ(text.find("ended"), text.npos) << text;
  }
}

TEST(watched_process, has_ended_when_a_thread_has_its_number) {
  std::promise<std::uint32_t> number;
  std::promise<void> over;
  std::thread other([&, end = over.get_future()] {
    number.set_value(static_cast<std::uint32_t>(gettid()));
    end.wait();
  });
  auto before = this_process();
  before.pid = number.get_future().get();
  before.start_time -= 1;  // when the number was a process's
  std::string why;
  EXPECT_THROW(watch_process(before, why), peer_lost) << why;
  over.set_value();
  other.join();
}

}  // namespace
}  // namespace troupe::transport::test
