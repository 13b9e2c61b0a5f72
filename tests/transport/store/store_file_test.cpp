// What only the store in a file has: leftovers, damage, other people's files.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "tests/transport/store/store_fixture.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/transport/store/file_store.hpp"

namespace troupe::transport::test {
namespace {

class file_store_test : public testing::Test {
protected:
  file_store open() { return file_store(path, secret); }
  static bool has(store& s, std::string key) { return s.check(std::span(&key, 1)); }

  temporary_folder folder;
  std::filesystem::path path = folder.path / "store";
  job_secret secret;
};

TEST_F(file_store_test, is_removed_by_who_closes_it_last) {
  {
    auto a = open();
    {
      auto b = open();
      b.set("k", "1");
    }
    EXPECT_TRUE(std::filesystem::exists(path));
    EXPECT_TRUE(has(a, "k"));
    struct stat s {};
    ASSERT_EQ(stat(path.c_str(), &s), 0);
    EXPECT_EQ(s.st_mode & 0777, 0600u);
    a.close();
    EXPECT_CONTAINS(text_of<store_error>([&] { a.set("k", "2"); }), "closed by this rank");
    EXPECT_FALSE(std::filesystem::exists(path));
  }
}

// Also one that was made by others' hands: who may read it may hold its locks.
TEST_F(file_store_test, is_closed_to_other_users) {
  std::ofstream(path).close();
  std::filesystem::permissions(path, std::filesystem::perms(0644));
  auto a = open();
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
}

// Somebody removes the file of a job that runs, and starts another one.
TEST_F(file_store_test, leaves_a_file_alone_that_has_taken_its_place) {
  auto old = open();
  old.set("k", "old");
  std::filesystem::remove(path);
  EXPECT_CONTAINS(text_of<store_error>([&] { old.clone(); }), "it was removed or replaced");
  EXPECT_FALSE(std::filesystem::exists(path));
  auto fresh = open();
  EXPECT_CONTAINS(text_of<store_error>([&] { old.clone(); }), "it was removed or replaced");
  EXPECT_EQ(to_text(old.get("k", 0ms)), "old");
  old.close();
  EXPECT_TRUE(std::filesystem::exists(path));
  fresh.set("k", "fresh");
  EXPECT_EQ(to_text(open().get("k", 0ms)), "fresh");
}

TEST_F(file_store_test, leftovers_of_a_killed_run_are_never_seen) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto* left_open = new file_store(path, secret);
    left_open->set("old", "1");
    _exit(0);  // no destructor: as if killed
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_TRUE(std::filesystem::exists(path));
  auto fresh = open();
  EXPECT_FALSE(has(fresh, "old"));
  // The same with another secret, as each run of the launcher makes one.
  fresh.close();
  std::ofstream(path) << "TROUPEF";
  EXPECT_EQ(file_store(path, job_secret()).num_keys(), 0u);
}

TEST_F(file_store_test, a_live_job_of_another_secret_is_reported) {
  auto mine = open();
  EXPECT_CONTAINS(text_of<store_error>([&] { file_store(path, job_secret()); }),
                  path.string() + " is in use by a job with another secret");
  mine.set("k", "still works");
  EXPECT_TRUE(has(mine, "k"));
}

TEST_F(file_store_test, a_file_that_is_no_store_is_left_alone) {
  std::ofstream(path) << "the only copy of my results";
  EXPECT_CONTAINS(text_of<store_error>([&] { open(); }), "is not a store's file; it is left alone");
  std::string content;
  std::getline(std::ifstream(path), content);
  EXPECT_EQ(content, "the only copy of my results");
}

TEST_F(file_store_test, a_path_that_cannot_be_opened_is_named) {
  const auto missing = folder.path / "no" / "such" / "folder";
  EXPECT_CONTAINS(text_of<store_error>([&] { file_store(missing, secret); }), missing.string());
  EXPECT_CONTAINS(text_of<store_error>([&] { file_store(folder.path, secret); }),
                  "cannot be opened: Is a directory");
  std::filesystem::create_symlink(folder.path / "elsewhere", path);
  EXPECT_CONTAINS(text_of<store_error>([&] { open(); }), "cannot be opened");
}

TEST_F(file_store_test, a_record_that_was_cut_off_is_repaired) {
  auto a = open();
  a.set("whole", "1");
  const auto size = std::filesystem::file_size(path);
  // Somebody died while writing.
  std::ofstream(path, std::ios::app) << std::string(20, '\x01');
  EXPECT_TRUE(has(a, "whole"));
  a.set("next", "2");
  auto b = open();
  EXPECT_EQ(to_text(b.get("next", 0ms)), "2");
  EXPECT_GT(std::filesystem::file_size(path), size);
}

// As on a disk that is full.
TEST_F(file_store_test, what_cannot_be_written_has_not_happened) {
  auto a = open();
  auto b = open();
  a.set("k", "1");
  a.queue_push("q", "1");
  struct sigaction ignore {};
  struct sigaction usual {};
  ignore.sa_handler = SIG_IGN;
  ASSERT_EQ(sigaction(SIGXFSZ, &ignore, &usual), 0);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  auto small = before;
  small.rlim_cur = std::filesystem::file_size(path) + 50;  // half a record
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto set = text_of<store_error>([&] { a.set("k", "2"); });
  const auto pop = text_of<store_error>([&] { a.queue_pop("q", 0ms); });
  const auto seen = to_text(a.get("k", 0ms)) + to_text(b.get("k", 0ms));
  const auto queued = a.queue_len("q") + b.queue_len("q");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_EQ(sigaction(SIGXFSZ, &usual, nullptr), 0);
  EXPECT_CONTAINS(set, "cannot be written");
  EXPECT_CONTAINS(pop, "cannot be written");
  EXPECT_EQ(seen, "11");
  EXPECT_EQ(queued, 2u);
  b.set("k", "3");
  EXPECT_EQ(to_text(a.queue_pop("q", 0ms)), "1");
  EXPECT_EQ(to_text(a.get("k", 0ms)), "3");
}

TEST_F(file_store_test, a_record_without_proof_is_refused) {
  auto a = open();
  a.set("k", "1");
  const auto end = std::filesystem::file_size(path);
  a.set("forged", "12345678");
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(end + 8 + 32 + 40));
  file << "x";
  file.close();
  EXPECT_CONTAINS(text_of<store_error>([&] { open().num_keys(); }), "without a valid proof");
}

}  // namespace
}  // namespace troupe::transport::test
