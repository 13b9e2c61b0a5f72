#include "tests/actors/node/open_things.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/shm.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace troupe::test {

namespace {

namespace fs = std::filesystem;

std::string folder_of(int pid) { return "/proc/" + std::to_string(pid); }

std::vector<fs::path> entries(const std::string& folder) {
  std::vector<fs::path> found;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(folder, gone)) found.push_back(entry.path());
  return found;
}

std::set<std::string> socket_inodes(int pid) {
  std::set<std::string> inodes;
  for (const auto& path : entries(folder_of(pid) + "/fd")) {
    std::error_code gone;
    const auto target = fs::read_symlink(path, gone).string();
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

std::vector<std::vector<std::string>> table(const std::string& path) {
  std::vector<std::vector<std::string>> rows;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::vector<std::string> row;
    for (std::string word; words >> word;) row.push_back(word);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

std::vector<std::pair<sockaddr_storage, socklen_t>> listening_of(int pid) {
  const auto mine = socket_inodes(pid);
  std::vector<std::pair<sockaddr_storage, socklen_t>> found;
  const auto add = [&found](const auto& address) {
    auto& [storage, size] = found.emplace_back();
    std::memcpy(&storage, &address, sizeof address);
    size = sizeof address;
  };
  for (const char* family : {"/net/tcp", "/net/tcp6"})
    for (const auto& row : table(folder_of(pid) + family)) {
      if (row.size() < 10 || row[3] != "0A" || !mine.contains(row[9])) continue;
      const auto digits = row[1].find(':');  // 8 for each word of the address, as it lies in memory
      const auto word = [&](std::size_t number) {
        return static_cast<std::uint32_t>(std::stoul(row[1].substr(8 * number, 8), nullptr, 16));
      };
      const auto port =
          htons(static_cast<in_port_t>(std::stoul(row[1].substr(digits + 1), nullptr, 16)));
      if (digits == 8) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = word(0);
        address.sin_port = port;
        add(address);
      } else {
        sockaddr_in6 address{};
        address.sin6_family = AF_INET6;
        for (std::size_t i = 0; i < 4; ++i) address.sin6_addr.s6_addr32[i] = word(i);
        address.sin6_port = port;
        add(address);
      }
    }
  return found;
}

bool is_loopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET6) {
    sockaddr_in6 six;
    std::memcpy(&six, &address, sizeof six);
    return IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
  }
  sockaddr_in four;
  std::memcpy(&four, &address, sizeof four);
  return ntohl(four.sin_addr.s_addr) >> 24 == 127;
}

std::vector<std::pair<sockaddr_un, socklen_t>> local_sockets_of(int pid) {
  const auto mine = socket_inodes(pid);
  std::vector<std::pair<sockaddr_un, socklen_t>> found;
  for (const auto& row : table(folder_of(pid) + "/net/unix")) {
    if (row.size() < 8 || !mine.contains(row[6])) continue;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const auto size = std::min(row[7].size(), sizeof address.sun_path);
    std::memcpy(address.sun_path, row[7].data(), size);
    if (address.sun_path[0] == '@') address.sun_path[0] = 0;
    found.emplace_back(address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size));
  }
  return found;
}

std::vector<int> system_v_segments_of(int pid) {
  std::vector<int> found;
  for (const auto& row : table("/proc/sysvipc/shm"))
    if (row.size() > 5 && row[4] == std::to_string(pid)) found.push_back(std::atoi(row[1].c_str()));
  return found;
}

std::vector<std::string> ways_to_memory_of(int pid) {
  std::vector<std::string> found{folder_of(pid) + "/mem"};
  for (const char* kind : {"/fd", "/map_files"})
    for (const auto& path : entries(folder_of(pid) + kind)) {
      std::error_code gone;
      const auto target = fs::read_symlink(path, gone).string();
      // Programs and libraries are everybody's.
      if (target.find("/dev/shm/") != target.npos || target.find("SYSV") != target.npos ||
          target.find("memfd:") != target.npos)
        found.push_back(path.string());
    }
  return found;
}

}  // namespace troupe::test
