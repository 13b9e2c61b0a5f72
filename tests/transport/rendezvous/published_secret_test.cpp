// A secret that is published for the other ranks on this host: which processes find it.
#include "troupe/transport/rendezvous/published_secret.hpp"

#include <gmock/gmock.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/forking.hpp"
#include "tests/transport/rendezvous/rendezvous_fixture.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::transport::test {
namespace {

constexpr std::uint16_t port = 29'500;
constexpr uid_t nobody_uid = 65'534;

class published : public testing::Test {
protected:
  std::unique_ptr<published_secret> publish(const job_secret& secret, std::uint16_t at = port,
                                            std::chrono::milliseconds limit = 5s) {
    return std::make_unique<published_secret>(env, at, secret, deadline_after(limit));
  }

  /// Empty: it is found.
  std::string failure(std::uint16_t at = port) {
    try {
      published_secret::find(env, at);
      return "";
    } catch (const store_error& e) {
      return e.what();
    }
  }

  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
  }

  static mode_t mode_of(const std::filesystem::path& path) {
    struct stat s {};
    return stat(path.c_str(), &s) == 0 ? s.st_mode & 07777 : 0;
  }

  temporary_folder runtime;
  std::filesystem::path folder = runtime.path / "troupe";
  environment env = variables({{"XDG_RUNTIME_DIR", runtime.path.string()}});
  job_secret secret;
};

TEST_F(published, is_found_until_it_is_taken_back) {
  EXPECT_CONTAINS(failure(), "no rank 0 of user " + std::to_string(geteuid()) + " has left");
  EXPECT_CONTAINS(failure(), folder.string());
  auto one = publish(secret);
  EXPECT_EQ(one->path().parent_path(), folder);
  EXPECT_EQ(mode_of(one->path()), 0600u);
  EXPECT_EQ(mode_of(folder), 0700u);
  EXPECT_TRUE(published_secret::find(env, port) == secret);
  EXPECT_NE(failure(port + 1), "");
  const job_secret other;
  const auto two = publish(other, port + 1);
  EXPECT_TRUE(published_secret::find(env, port + 1) == other);
  EXPECT_TRUE(published_secret::find(env, port) == secret);
  one.reset();
  EXPECT_NE(failure(), "");
  EXPECT_EQ(files(), 1u);
}

TEST_F(published, is_not_found_once_its_publisher_was_killed) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    try {
      const auto left = publish(secret);
      const auto also = publish(secret, port + 1);
      if (write(ends[1], "!", 1) != 1) _exit(2);
      pause();
    } catch (...) {
    }
    _exit(1);
  }
  char there = 0;
  ASSERT_EQ(read(ends[0], &there, 1), 1);
  EXPECT_TRUE(published_secret::find(env, port) == secret);
  EXPECT_CONTAINS(text_of<store_error>([&] { publish(job_secret(), port, 30ms); }),
                  "another job of this user meets at port 29500");
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  for (const int end : ends) close(end);
  EXPECT_EQ(files(), 2u);
  EXPECT_NE(failure(), "");
  const job_secret next;
  const auto now = publish(next);
  EXPECT_TRUE(published_secret::find(env, port) == next);
  EXPECT_EQ(files(), 1u);  // what was left for the other port went too
}

TEST_F(published, stays_when_a_forked_child_ends) {
  auto one = publish(secret);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    one.reset();
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(published_secret::find(env, port) == secret);
}

TEST_F(published, is_not_found_once_its_publisher_was_killed_though_a_child_lives) {
  troupe::test::parent_of_an_idle_child parent([this] { return publish(secret); });
  ASSERT_TRUE(parent.ready());
  EXPECT_EQ(failure(), "");
  parent.kill();
  EXPECT_NE(failure(), "");
}

TEST_F(published, is_believed_only_from_a_file_of_this_user_alone) {
  const auto one = publish(secret);
  const auto path = one->path();
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  EXPECT_NE(failure(), "");
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(failure(), "");
  if (geteuid() == 0) {
    ASSERT_EQ(chown(path.c_str(), nobody_uid, nobody_uid), 0);
    EXPECT_NE(failure(), "");
    ASSERT_EQ(chown(path.c_str(), 0, 0), 0);
  }
  std::filesystem::rename(path, folder / "elsewhere");
  std::filesystem::create_symlink("elsewhere", path);
  EXPECT_NE(failure(), "");
}

// What another user has put in the folder's place, in the order in which places are examined.
TEST_F(published, is_never_left_in_a_folder_that_others_can_use) {
  // Other folders are those of all this user's jobs.
  const auto at = free_port();
  const auto elsewhere = [&] { return publish(secret, at)->path().parent_path(); };
  EXPECT_EQ(elsewhere(), folder);
  ASSERT_EQ(chmod(folder.c_str(), 0755), 0);
  EXPECT_NE(elsewhere(), folder);
  std::filesystem::remove(folder);
  std::filesystem::create_directory(runtime.path / "mine");
  ASSERT_EQ(chmod((runtime.path / "mine").c_str(), 0700), 0);
  std::filesystem::create_symlink("mine", folder);
  EXPECT_NE(elsewhere(), folder);
  std::filesystem::remove(folder);
  std::ofstream(folder.string()) << "a file";
  EXPECT_NE(elsewhere(), folder);
  std::filesystem::remove(folder);
  ASSERT_EQ(chmod(runtime.path.c_str(), 0777), 0);
  EXPECT_NE(elsewhere(), folder);
  ASSERT_EQ(chmod(runtime.path.c_str(), 0700), 0);
  EXPECT_EQ(elsewhere(), folder);
  if (geteuid() != 0) return;
  ASSERT_EQ(chown(folder.c_str(), nobody_uid, nobody_uid), 0);
  EXPECT_NE(elsewhere(), folder);
}

// Where there is no runtime folder, any user can take the user's place in /tmp.
TEST_F(published, lies_in_the_users_home_where_another_user_has_taken_its_place) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
  const uid_t user = 60'000 + static_cast<uid_t>(getpid() % 5'000);
  const std::filesystem::path taken = "/tmp/troupe-" + std::to_string(user);
  ASSERT_TRUE(mkdir(taken.c_str(), 0755) == 0 || errno == EEXIST) << taken;
  const temporary_folder home;
  ASSERT_EQ(chown(home.path.c_str(), user, user), 0);
  env = variables({{"HOME", home.path.string()}});
  const auto code = troupe::test::in_child([&] {
    if (setgroups(0, nullptr) != 0 || setresuid(user, user, user) != 0) return 1;
    const auto one = publish(secret);
    if (one->path().parent_path() != home.path / ".cache" / "troupe") return 2;
    if (mode_of(one->path().parent_path()) != 0700) return 3;
    return published_secret::find(env, port) == secret ? 0 : 4;
  });
  std::filesystem::remove(taken);
  EXPECT_EQ(code, 0);
}

TEST_F(published, leaves_files_of_others_in_its_folder_alone) {
  publish(secret);
  std::ofstream((folder / "notes").string()) << "mine";
  publish(secret);
  EXPECT_TRUE(std::filesystem::exists(folder / "notes"));
}

}  // namespace
}  // namespace troupe::transport::test
