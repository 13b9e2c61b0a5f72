#include "troupe/apps/common/files.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "troupe/messages/base/error.hpp"

namespace common {

namespace {

struct closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

using open_file = std::unique_ptr<std::FILE, closer>;

[[noreturn]] void throw_cannot_write(const std::string& path) {
  throw troupe::invalid_argument("cannot write '" + path + "': " + std::strerror(errno));
}

open_file open_to_write(const std::string& path, const char* mode) {
  open_file file(std::fopen(path.c_str(), mode));
  if (!file) throw_cannot_write(path);
  return file;
}

}  // namespace

void require_writable(const std::string& path) { open_to_write(path, "a"); }

void write_file(const std::string& path, const std::string& text) {
  open_file file = open_to_write(path, "w");
  if (std::fwrite(text.data(), 1, text.size(), file.get()) != text.size() ||
      std::fclose(file.release()) != 0)
    throw_cannot_write(path);
}

}  // namespace common
