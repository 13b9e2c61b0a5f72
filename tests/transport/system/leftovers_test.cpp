// What dead processes have left in shared memory, and what only looks like it.

#include "troupe/transport/system/leftovers.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

namespace troupe::transport {
namespace {

namespace fs = std::filesystem;

// A folder in shared memory, of this test alone.
class leftovers : public testing::Test {
protected:
  leftovers() {
    std::string path = "/dev/shm/troupe-leftovers-XXXXXX";
    if (!mkdtemp(path.data())) throw std::runtime_error("no folder in /dev/shm");
    folder = path;
  }
  ~leftovers() override { fs::remove_all(folder); }

  std::string make(const std::string& name, const std::string& content = "content") const {
    const auto path = (folder / name).string();
    std::ofstream(path) << content;
    return path;
  }

  unsigned removed() const { return remove_leftovers(folder.string()); }

  fs::path folder;
};

// Runs `hold` in another process, which then waits; killed when this goes.
class holder {
public:
  explicit holder(const std::function<void()>& hold) {
    int ready[2];
    if (pipe(ready) != 0) throw std::runtime_error("no pipe");
    pid_ = fork();
    if (pid_ == 0) {
      hold();
      if (write(ready[1], "x", 1) == 1) pause();
      _exit(0);
    }
    char c = 0;
    const auto answered = read(ready[0], &c, 1);
    close(ready[0]);
    close(ready[1]);
    if (answered != 1) throw std::runtime_error("the holder does not answer");
  }
  ~holder() { kill(); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

private:
  pid_t pid_ = 0;
};

TEST_F(leftovers, of_a_killed_process_are_removed) {
  const auto path = (folder / "ucx_shm_posix_6984835c").string();
  holder one([&] {  // as UCX makes a segment
    const int fd = open(path.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
    if (write(fd, "content", 7) != 7) _exit(1);
  });
  EXPECT_EQ(removed(), 0u);
  EXPECT_TRUE(fs::exists(path));
  one.kill();
  EXPECT_EQ(removed(), 1u);
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(leftovers, that_somebody_has_mapped_stay) {
  const auto path = make("ucx_shm_posix_1", std::string(4096, 'x'));
  holder one([&] {
    const int fd = open(path.c_str(), O_RDWR);
    if (mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED) _exit(1);
    close(fd);
  });
  EXPECT_EQ(removed(), 0u);
  one.kill();
  EXPECT_EQ(removed(), 1u);
}

TEST_F(leftovers, that_somebody_reads_stay) {
  const auto path = make("ucx_shm_posix_2");
  const int fd = open(path.c_str(), O_RDONLY);
  EXPECT_EQ(removed(), 0u);
  close(fd);
  EXPECT_EQ(removed(), 1u);
}

TEST_F(leftovers, that_may_be_in_the_making_stay) {
  make("ucx_shm_posix_3", "");
  EXPECT_EQ(removed(), 0u);
}

TEST_F(leftovers, of_other_kinds_stay) {
  make("ucx_shm_posix_");
  make("ucx_shm_posix_12x");
  make("ucx_shm_posix_12.old");
  make("somebody_elses");
  const auto target = make("target");
  fs::create_symlink(target, folder / "ucx_shm_posix_4");
  fs::create_directory(folder / "ucx_shm_posix_5");
  EXPECT_EQ(removed(), 0u);
  EXPECT_TRUE(fs::exists(target));
}

TEST_F(leftovers, of_other_users_stay) {
  const auto path = make("ucx_shm_posix_6");
  if (chown(path.c_str(), 65'534, 65'534) != 0) GTEST_SKIP() << "only root can give a file away";
  EXPECT_EQ(removed(), 0u);
  EXPECT_TRUE(fs::exists(path));
}

TEST(leftovers_elsewhere, a_folder_that_is_not_there_has_none) {
  EXPECT_EQ(remove_leftovers("/dev/shm/no such folder"), 0u);
}

}  // namespace
}  // namespace troupe::transport
