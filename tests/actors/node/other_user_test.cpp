// What another user of the host, also one of the same group, can do to a job.

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "tests/actors/node/job.hpp"
#include "tests/actors/node/open_things.hpp"
#include "tests/free_port.hpp"
#include "tests/rank_process.hpp"

namespace troupe::test {

namespace {

constexpr uid_t other_user = 65'534;

// Runs `act` as another user of this user's group; what it returns is an exit code below 100.
int as_other_user(const std::function<int()>& act) {
  const pid_t child = fork();
  if (child == 0) {
    if (setgroups(0, nullptr) != 0 || setresuid(other_user, other_user, other_user) != 0)
      _exit(100);
    _exit(act());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 101;
}

// A job of two processes that send tensors to each other.
class victims {
public:
  explicit victims(const std::string& how) {
    setenv("TROUPE_JOB_SECRET", std::string(64, '7').c_str(), 1);
    const auto method = "tcp://127.0.0.1:" + std::to_string(free_port());
    for (const char* rank : {"0", "1"})
      ranks_.push_back(std::make_unique<rank_process>(std::vector<std::string>{
          TROUPE_TEST_PROGRAM_DIR "/victim_program", rank, method, folder_.path(), how}));
  }

  bool begun() {
    return eventually([&] {
      return std::filesystem::exists(folder_.path() / "0") &&
             std::filesystem::exists(folder_.path() / "1");
    });
  }

  std::vector<int> pids() const { return {ranks_[0]->pid(), ranks_[1]->pid()}; }

  // Of what nobody else has any business with, in one of the two.
  std::uint64_t address(int rank) const {
    std::uint64_t at = 0;
    std::ifstream(folder_.path() / std::to_string(rank)) >> at;
    return at;
  }

  std::uint64_t word(int rank) const {
    std::uint64_t value = 0;
    const iovec here{&value, sizeof value};
    const iovec there{reinterpret_cast<void*>(address(rank)), sizeof value};
    if (process_vm_readv(ranks_[rank]->pid(), &here, 1, &there, 1, 0) != sizeof value) return 0;
    return value;
  }

  /// What both exit with.
  std::pair<int, int> end() {
    std::ofstream(folder_.path() / "end");
    eventually([&] { return ranks_[0]->ended() && ranks_[1]->ended(); });
    return {ranks_[0]->exit_code(), ranks_[1]->exit_code()};
  }

private:
  temporary_folder folder_;
  std::vector<std::unique_ptr<rank_process>> ranks_;
};

template <class T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// What UCX 1.22 takes for a connection and a put: uct/tcp/tcp.h.
std::string put_request(std::uint64_t address) {
  std::string bytes;
  put(bytes, std::uint64_t{0xCAFEBABE12345678});  // else it is ignored
  sockaddr_in us{};
  us.sin_family = AF_INET;
  us.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  us.sin_port = htons(1);
  put(bytes, std::uint8_t{32});  // connection management
  put(bytes, std::uint32_t{13 + sizeof us});
  put(bytes, std::uint32_t{1});  // a request
  put(bytes, std::uint8_t{0});
  put(bytes, std::uint64_t{12345});
  put(bytes, us);
  put(bytes, std::uint8_t{33});  // put
  put(bytes, std::uint32_t{20});
  put(bytes, address);
  put(bytes, std::uint64_t{8});
  put(bytes, std::uint32_t{0});
  put(bytes, ~std::uint64_t{0});  // what is written
  return bytes;
}

using tcp_address = std::pair<sockaddr_storage, socklen_t>;

void send_raw_frames(const tcp_address& to, std::uint64_t address) {
  const int fd = socket(to.first.ss_family, SOCK_STREAM, 0);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&to.first), to.second) != 0) return;
  const auto bytes = put_request(address);
  if (::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return;
  // Whoever listens may cut it, or answer; what it does before counts.
  timeval limit{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  char answer[64];
  [[maybe_unused]] const auto ignored = ::recv(fd, answer, sizeof answer, 0);
  close(fd);
}

// Sends what writes into both to each of their ports; how many there were.
int attack_ports(const victims& job) {
  std::vector<std::pair<tcp_address, std::uint64_t>> targets;
  for (int rank = 0; rank < 2; ++rank)
    for (auto to : listening_of(job.pids()[rank])) {
      if (to.first.ss_family == AF_INET) {
        auto& any = reinterpret_cast<sockaddr_in&>(to.first).sin_addr;
        if (any.s_addr == INADDR_ANY) any.s_addr = htonl(INADDR_LOOPBACK);
      } else {
        auto& any = reinterpret_cast<sockaddr_in6&>(to.first).sin6_addr;
        if (IN6_IS_ADDR_UNSPECIFIED(&any)) any = in6addr_loopback;
      }
      targets.emplace_back(to, job.address(rank));
    }
  const auto sent = as_other_user([&] {
    for (const auto& [to, address] : targets) send_raw_frames(to, address);
    return 0;
  });
  EXPECT_EQ(sent, 0);
  return static_cast<int>(targets.size());
}

constexpr const char* only_root = "only root can act as another user";

class other_user_of_the_host : public testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << only_root;
  }
};

INSTANTIATE_TEST_SUITE_P(jobs, other_user_of_the_host, testing::Values("default", "dynamic"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(other_user_of_the_host, changes_nothing_by_raw_frames_to_its_ports) {
  victims job(GetParam());
  ASSERT_TRUE(job.begun());
  // Rank 0's store alone, and that to this host alone.
  EXPECT_TRUE(listening_of(job.pids()[1]).empty());
  const auto store = listening_of(job.pids()[0]);
  ASSERT_EQ(store.size(), 1u);
  ASSERT_EQ(store[0].first.ss_family, AF_INET);
  EXPECT_EQ(reinterpret_cast<const sockaddr_in&>(store[0].first).sin_addr.s_addr,
            htonl(INADDR_LOOPBACK));
  EXPECT_EQ(attack_ports(job), 1);
  EXPECT_EQ(job.end(), std::pair(0, 0));
}

// So that the frames above are known to be those that do harm.
TEST(other_user_of_a_trusted_network, writes_anywhere) {
  if (geteuid() != 0) GTEST_SKIP() << only_root;
  victims job("ucx_tcp");
  ASSERT_TRUE(job.begun());
  EXPECT_GE(attack_ports(job), 3);
  EXPECT_TRUE(eventually([&] { return job.word(0) != 42 && job.word(1) != 42; }));
  EXPECT_EQ(job.end(), std::pair(4, 4));
}

TEST(other_user_of_a_job_over_tcp, changes_nothing_by_raw_frames_to_its_ports) {
  if (geteuid() != 0) GTEST_SKIP() << only_root;
  victims job("tcp");
  ASSERT_TRUE(job.begun());
  EXPECT_GE(attack_ports(job), 3);  // the store, and a port of each rank
  EXPECT_EQ(job.end(), std::pair(0, 0));
}

TEST_P(other_user_of_the_host, of_the_same_group_gets_at_no_memory) {
  victims job(GetParam());
  ASSERT_TRUE(job.begun());
  std::vector<std::string> files;
  std::vector<int> segments;
  for (const int pid : job.pids()) {
    const auto ways = ways_to_memory_of(pid);
    EXPECT_GT(ways.size(), 1u);  // there are segments of shared memory
    files.insert(files.end(), ways.begin(), ways.end());
    // The kernel lets others through /proc to no file, whatever its mode; other ways it would.
    int shared = 0;
    for (const auto& way : ways) {
      std::error_code gone;
      struct stat s {};
      if (!std::filesystem::read_symlink(way, gone).string().starts_with("/dev/shm/") ||
          stat(way.c_str(), &s) != 0)
        continue;
      ++shared;
      EXPECT_EQ(s.st_mode & 077, 0u) << way;
      EXPECT_EQ(s.st_uid, geteuid()) << way;
    }
    EXPECT_GT(shared, 0);
    const auto more = system_v_segments_of(pid);
    segments.insert(segments.end(), more.begin(), more.end());
  }
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    if (entry.path().filename().string().starts_with("ucx_")) files.push_back(entry.path());
  EXPECT_TRUE(segments.empty()) << "segments of System V are the group's";
  const auto got_in = as_other_user([&] {
    int in = 0;
    for (const auto& file : files)
      for (const int mode : {O_RDONLY, O_RDWR})
        if (open(file.c_str(), mode) >= 0) ++in;
    for (const int id : segments)
      if (void* memory = shmat(id, nullptr, 0); memory != reinterpret_cast<void*>(-1)) {
        std::memset(memory, 0xff, 4096);
        ++in;
      }
    return std::min(in, 99);
  });
  EXPECT_EQ(got_in, 0);
  EXPECT_EQ(job.end(), std::pair(0, 0));
}

// They have names that everybody can send to: all that does is wake a rank.
TEST_P(other_user_of_the_host, wakes_a_rank_at_most) {
  victims job(GetParam());
  ASSERT_TRUE(job.begun());
  std::vector<std::pair<sockaddr_un, socklen_t>> sockets;
  for (const int pid : job.pids())
    for (const auto& one : local_sockets_of(pid)) sockets.push_back(one);
  ASSERT_FALSE(sockets.empty());
  // 0 once one has taken something.
  const auto sent = as_other_user([&] {
    int code = 1;
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    const std::string garbage(300, '\xff');
    for (int i = 0; i < 1000; ++i)
      for (const auto& [name, size] : sockets)
        if (sendto(fd, garbage.data(), garbage.size(), 0, reinterpret_cast<const sockaddr*>(&name),
                   size) > 0)
          code = 0;
    return code;
  });
  EXPECT_EQ(sent, 0);
  EXPECT_EQ(job.end(), std::pair(0, 0));
}

}  // namespace

}  // namespace troupe::test
